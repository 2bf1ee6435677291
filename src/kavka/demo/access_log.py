"""Replay of a real access log: the lines of a file with the time at which each was collected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kavka.demo.line import LogLine, event_time_ms, visitor_of


def read_access_log(path: Path) -> Iterator[LogLine]:
    """Yield every line of a file in combined format, malformed ones too. Raise OSError when it cannot be read.

    Servers write a line when the request ends, so times go back a little; a line arrives at the latest time seen so
    far, and a malformed one with the line before it.
    """
    arrived_ms = 0
    with path.open("rb") as file:
        for raw in file:
            text = raw.rstrip(b"\r\n")
            event_ms = event_time_ms(text)
            if event_ms is not None:
                arrived_ms = max(arrived_ms, event_ms)
            yield LogLine(visitor_of(text), text, arrived_ms, event_ms)
