"""Coverage marks: situations that a batch of seeds must have met, or it proves little.

A simulator only finds what its workload and its faults can reach. A mark is a situation with a name, recognised
by a line of the story, so that product code need not know of marks: it logs what happens, as it should anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kavka.testing.simulation.story import Line


@dataclass(frozen=True, slots=True)
class Mark:
    """A situation: its name, and the pattern of the story's line that shows it."""

    name: str
    pattern: str
    who: str = ""

    def is_hit_by(self, line: Line) -> bool:
        """Tell whether the line shows the situation."""
        return line.who.startswith(self.who) and re.search(self.pattern, line.event) is not None


def hits(marks: Iterable[Mark], lines: Iterable[Line]) -> set[str]:
    """Return the names of the marks that the story shows."""
    missing = list(marks)
    found: set[str] = set()
    for line in lines:
        for mark in [mark for mark in missing if mark.is_hit_by(line)]:
            found.add(mark.name)
            missing.remove(mark)
    return found
