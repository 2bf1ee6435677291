"""The events of a log file: lines, or several lines where a pattern matches the first line of an event. Pure.

An event ends with a line end; bytes behind the last line end wait for theirs. An event longer than the limit is split
into parts, which bounds the memory for a file without line ends. A part continues another one if the byte before it is
no line end, so splitting needs no state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple


class EventRules(NamedTuple):
    """Rules for splitting a file into events."""

    max_bytes: int
    start_pattern: re.Pattern[bytes] | None = None
    """Pattern of the first line of an event; None if each line is an event."""


class Events(NamedTuple):
    """Events in order, and their positions in the file."""

    events: list[bytes]
    positions: list[int]
    """Of the first byte of each event."""
    end: int
    """Position behind the last event."""
    parts: dict[int, str]
    """For parts of a longer event, by index: first, middle or last."""


def split_events(
    data: bytes,
    position: int,
    preceding: bytes,
    rules: EventRules,
    *,
    is_flush: bool = False,
    is_final: bool = False,
) -> Events:
    """Return the events of `data`, which begins at `position` and follows `preceding`.

    With `is_flush` the lines at the end are an event although no next event has begun; with `is_final` so is a
    line without a line end, because the file was deleted or is complete.
    """
    is_inside = not preceding.endswith(b"\n")
    if not preceding.strip(b"\0"):
        # The beginning, or the hole that a truncation leaves before the next write of a program that does not append.
        is_inside, length = False, len(data)
        data = data.lstrip(b"\0")
        position += length - len(data)
    end = len(data) if is_final else data.rfind(b"\n") + 1
    lines = data[:end].split(b"\n")
    rest = lines.pop()
    if is_final and rest:
        lines.append(rest)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=position))[:-1]
    tail = data[end:]
    if rules.start_pattern is not None:
        lines, starts, end = _join_lines(lines, starts, rules, end, position, is_flush or is_final)
    is_long = len(tail) >= rules.max_bytes and end == len(data) - len(tail)
    if not is_inside and not is_long and max(map(len, lines), default=0) <= rules.max_bytes:
        return Events(
            [_without_carriage_return(line) for line in lines], starts, position + end, {}
        )
    long = tail[: len(tail) // rules.max_bytes * rules.max_bytes] if is_long else b""
    return _split_long(lines, starts, long, position + end, rules.max_bytes, is_inside)


def _without_carriage_return(line: bytes) -> bytes:
    return line[:-1] if line.endswith(b"\r") else line


def _join_lines(
    lines: list[bytes],
    starts: list[int],
    rules: EventRules,
    end: int,
    position: int,
    is_flush: bool,
) -> tuple[list[bytes], list[int], int]:
    """Join lines to events. The last event is left out unless it is flushed, or has reached the limit."""
    assert rules.start_pattern is not None
    if not lines:
        return [], [], end
    firsts = [
        index for index, line in enumerate(lines) if index == 0 or rules.start_pattern.search(line)
    ]
    events = [
        b"\n".join([line.removesuffix(b"\r") for line in lines[first:last]])
        for first, last in zip(firsts, [*firsts[1:], len(lines)], strict=True)
    ]
    event_starts = [starts[first] for first in firsts]
    if events and not is_flush and len(events[-1]) < rules.max_bytes:
        events.pop()
        end = event_starts.pop() - position
    return events, event_starts, end


def _split_long(
    lines: list[bytes], starts: list[int], long: bytes, end: int, max_bytes: int, is_inside: bool
) -> Events:
    events = Events([], [], end + len(long), {})
    for index, (line, start) in enumerate(zip(lines, starts, strict=True)):
        parts = list(_slices(line, max_bytes)) or [b""]
        for number, part in enumerate(parts):
            is_first = number == 0 and not (is_inside and index == 0)
            is_last = number == len(parts) - 1
            if not (is_first and is_last):
                word = "first" if is_first else "last" if is_last else "middle"
                events.parts[len(events.events)] = word
            events.events.append(_without_carriage_return(part))
            events.positions.append(start + number * max_bytes)
    for number, part in enumerate(_slices(long, max_bytes)):
        is_first = number == 0 and not (is_inside and not lines)
        events.parts[len(events.events)] = "first" if is_first else "middle"
        events.events.append(part)
        events.positions.append(end + number * max_bytes)
    return events


def _slices(line: bytes, max_bytes: int) -> Iterator[bytes]:
    return (line[start : start + max_bytes] for start in range(0, len(line), max_bytes))
