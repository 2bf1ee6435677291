"""The ear of a run: it hands every event to every invariant and keeps what was broken."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kavka.simulation.events import Event
from kavka.simulation.invariants import Invariant, Violation
from kavka.simulation.trace import Trace


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant that did not hold."""

    invariant: str
    says: str
    facts: str

    def __str__(self) -> str:
        """Return the finding in one line."""
        return f"{self.invariant} ({self.says}): {self.facts}"


class Checker:
    """Takes events. After the first violation `broken` has it and `stop` is set, because what follows means little."""

    def __init__(self, invariants: list[Invariant], trace: Trace) -> None:
        """Check `invariants`."""
        self.broken: list[Broken] = []
        self.stop = asyncio.Event()
        self.counts: dict[str, int] = {}
        self._invariants = invariants
        self._trace = trace

    def observe(self, event: Event) -> None:
        """Take the next event."""
        kind = type(event).__name__
        self.counts[kind] = self.counts.get(kind, 0) + 1
        for invariant in self._invariants:
            try:
                invariant.observe(event)
            except Violation as violation:
                finding = Broken(type(invariant).__name__, invariant.says, str(violation))
                self.broken.append(finding)
                self._trace.add("invariant", f"BROKEN: {finding}")
                self.stop.set()
