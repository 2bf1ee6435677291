"""Replay of a real access log: the lines of a file with the time at which each was collected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kavka.demo.line import LogLine, event_time_ms, visitor_of

_BLOCK = 1 << 20


def read_access_log(path: Path, size: int | None = None) -> Iterator[LogLine]:
    """Yield every line of a file in combined format, malformed ones too. Raise OSError when it cannot be read.

    Servers write a line when the request ends, so times go back a little; a line arrives at the latest time seen so
    far, and a malformed one with the line before it. With `size`, lines that begin after so many bytes are left out:
    a log that is still written to has a defined end that way.
    """
    arrived_ms = 0
    position = 0
    with path.open("rb") as file:
        for raw in file:
            if size is not None and position >= size:
                return
            position += len(raw)
            text = raw.rstrip(b"\r\n")
            event_ms = event_time_ms(text)
            if event_ms is not None:
                arrived_ms = max(arrived_ms, event_ms)
            yield LogLine(visitor_of(text), text, arrived_ms, event_ms)


def count_lines(path: Path, size: int) -> int:
    """Return how many lines begin in the first `size` bytes. Raise OSError.

    The audit uses it: it counts bytes, independently of the code that reads lines to send them.
    """
    count, remaining, last = 0, size, b""
    with path.open("rb") as file:
        while remaining > 0 and (block := file.read(min(remaining, _BLOCK))):
            remaining -= len(block)
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last not in (b"", b"\n"))
