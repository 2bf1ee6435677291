"""Replay of lines faster than they were written: when each is due, and a tally of those sent. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from pathlib import Path

from kavka.demo.access_log import count_lines, read_access_log
from kavka.demo.line import LogLine
from kavka.demo.site import START_MS, Site

SLICE_MS = 60_000
"""Lines of one minute of the site are sent together and acknowledged before the next minute, so that a partition is
never ahead of another by more than this: what the watermark of the pipeline has to allow for."""
LATENESS_MS = 10 * 60_000
"""Maximum lateness of a line to be counted in windows; repeated here, so that the audit checks the pipeline's own."""
LIMIT = 100
"""Requests of a client in a minute above which it is to be limited; repeated for the same reason."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Lines that arrive from `first_ms` to `last_ms`, both on the site's clock."""

    name: str
    lines: Callable[[], Iterator[LogLine]]
    first_ms: int
    last_ms: int
    count: Callable[[], int]
    """Count the lines independently of playing them, for the audit."""

    def speed(self, duration_s: float) -> float:
        """Return how many times faster than the site to play, to be done in `duration_s`."""
        return max(self.last_ms - self.first_ms, 1) / 1000 / duration_s

    def slices(self, duration_s: float) -> Iterator[tuple[float, list[LogLine]]]:
        """Yield lines that are sent together, with the time at which they are due in seconds after the start."""
        speed = self.speed(duration_s)
        for minute, lines in groupby(self.lines(), lambda line: line.arrived_ms // SLICE_MS):
            yield max(minute * SLICE_MS - self.first_ms, 0) / 1000 / speed, list(lines)


def replay_of_site(seed: int, hours: float) -> Replay:
    """Return the first hours of a generated site."""
    end_ms = START_MS + int(hours * 3_600_000)
    site = Site(seed)

    def lines() -> Iterator[LogLine]:
        return takewhile(lambda line: line.arrived_ms < end_ms, site.lines())

    def count() -> int:
        """Run a second generator of the same seed."""
        number = 0
        for line in Site(seed).lines():
            if line.arrived_ms >= end_ms:
                break
            number += 1
        return number

    return Replay(f"a generated site, seed {seed}", lines, START_MS, end_ms, count)


def replay_of_file(path: Path) -> Replay:
    """Return the replay of an access log up to its present end; reads its times. Raise OSError, ValueError."""
    size = path.stat().st_size
    first_ms = last_ms = -1
    for line in read_access_log(path, size):
        if line.event_ms is not None:
            first_ms = line.arrived_ms if first_ms < 0 else first_ms
            last_ms = line.arrived_ms
    if first_ms < 0:
        raise ValueError(f"{path} has no line in combined log format")
    return Replay(
        path.name,
        lambda: read_access_log(path, size),
        first_ms,
        last_ms,
        lambda: count_lines(path, size),
    )


@dataclass(slots=True)
class Tally:
    """The lines sent, counted at the source. Invariant: sent = malformed + too_late + on_time."""

    sent: int = 0
    malformed: int = 0
    too_late: int = 0
    on_time: int = 0
    above_limit: int = 0
    """Minutes in which a client sent more than `LIMIT` lines that were on time, one for each client."""
    _minutes: Counter[tuple[str, int]] = field(default_factory=Counter, repr=False, compare=False)

    def add(self, lines: Iterable[LogLine]) -> None:
        """Count lines that were acknowledged."""
        for line in lines:
            self.sent += 1
            if line.event_ms is None:
                self.malformed += 1
            elif line.arrived_ms - line.event_ms > LATENESS_MS:
                self.too_late += 1
            else:
                self.on_time += 1
                minute = (line.visitor, line.event_ms // 60_000)
                self._minutes[minute] += 1
                self.above_limit += self._minutes[minute] == LIMIT + 1
