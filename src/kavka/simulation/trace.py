"""The trace of a run: events with their virtual time and source.

A trace is for people (a failing seed is read before it is debugged) and for machines: two runs were the same if
their digests are equal. The product's log lines are part of it, with the process that logged them as source.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kavka.simulation.process import PROCESS


@dataclass(frozen=True, slots=True)
class TraceLine:
    """An event of a trace."""

    at_s: float
    source: str
    event: str

    def __str__(self) -> str:
        """Return the line as it is printed."""
        return f"{self.at_s:12.6f}  {self.source:<14} {self.event}"


class Trace:
    """All events of a run; they enter the digest, and are kept for printing."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        """Stamp events with `now_s`."""
        self.lines: list[TraceLine] = []
        self.errors: list[tuple[str, str, BaseException]] = []
        """Sources that logged an error with an exception: an unexpected one."""
        self._now_s = now_s
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, source: str, event: str) -> None:
        """Add an event."""
        line = TraceLine(self._now_s(), source, event)
        self.lines.append(line)
        self.add_fact(str(line))

    def add_fact(self, fact: str) -> None:
        """Add `fact` to the digest without printing it: bytes on a link, for one."""
        self._hash.update(f"{self._now_s():.9f} {fact}\n".encode())

    def digest(self) -> str:
        """Return a hash of all events and facts so far."""
        return self._hash.hexdigest()

    def __str__(self) -> str:
        """Return the whole story."""
        return "\n".join(map(str, self.lines))

    @contextmanager
    def capture(self, logger: str = "kavka", level: int = logging.INFO) -> Iterator[None]:
        """Take in what the product logs, while the block runs."""
        ear = _TraceHandler(self)
        target = logging.getLogger(logger)
        before = target.level, target.propagate
        target.addHandler(ear)
        target.setLevel(level)
        target.propagate = False
        try:
            yield
        finally:
            target.removeHandler(ear)
            target.setLevel(before[0])
            target.propagate = before[1]


class _TraceHandler(logging.Handler):
    """A log handler that adds log lines to the trace."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        level = "" if record.levelno <= logging.INFO else f"{record.levelname}: "
        event = f"{level}{record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            event += f" ({record.exc_info[1]!r})"
            if record.levelno >= logging.ERROR:
                source = process.name if process else "world"
                self._trace.errors.append((source, record.getMessage(), record.exc_info[1]))
        self._trace.add(process.name if process else "world", event)
