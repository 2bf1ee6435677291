"""Cuts bytes of a log file into events: lines, or lines together where a pattern begins an event. Pure.

An event ends with its line's end. What no line has ended yet is not an event: it waits. One that is longer than the
limit is cut into parts, so that a file without line ends needs no more memory than others. That a part continues
another one is seen from the byte before it, which is no line's end; nothing need be remembered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple


class Rules(NamedTuple):
    """Rules for cutting a file into events."""

    max_bytes: int
    begins: re.Pattern[bytes] | None = None
    """Pattern of the first line of an event; None where each line is an event."""


class Events(NamedTuple):
    """Events in order, with the positions of their first bytes and of the byte behind the last one."""

    events: list[bytes]
    positions: list[int]
    end: int
    parts: dict[int, str]
    """Those of them, by index, that are parts of a longer one: first, middle or last."""


def cut(
    data: bytes,
    position: int,
    lead: bytes,
    rules: Rules,
    *,
    is_flush: bool = False,
    is_final: bool = False,
) -> Events:
    """Return the events of `data`, which stands at `position` behind `lead`.

    With `is_flush` the lines at the end are an event although none has begun behind them; with `is_final` so is a
    line without its end, because the file is gone or complete.
    """
    is_inside = not lead.endswith(b"\n")
    if not lead.strip(
        b"\0"
    ):  # the start, or the hole that a truncation has left before what its writer wrote next
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
    if rules.begins is not None:
        lines, starts, end = _joined(lines, starts, rules, end, position, is_flush or is_final)
    is_long = len(tail) >= rules.max_bytes and end == len(data) - len(tail)
    if not is_inside and not is_long and max(map(len, lines), default=0) <= rules.max_bytes:
        return Events([_clean(line) for line in lines], starts, position + end, {})
    long = tail[: len(tail) // rules.max_bytes * rules.max_bytes] if is_long else b""
    return _parts(lines, starts, long, position + end, rules.max_bytes, is_inside)


def _clean(line: bytes) -> bytes:
    return line[:-1] if line.endswith(b"\r") else line


def _joined(
    lines: list[bytes], starts: list[int], rules: Rules, end: int, position: int, is_flush: bool
) -> tuple[list[bytes], list[int], int]:
    """Join lines to events. The last event is left out unless it is flushed, or as long as an event can be."""
    assert rules.begins is not None
    if not lines:
        return [], [], end
    firsts = [i for i, line in enumerate(lines) if i == 0 or rules.begins.search(line)]
    events = [
        b"\n".join([line.removesuffix(b"\r") for line in lines[first:last]])
        for first, last in zip(firsts, [*firsts[1:], len(lines)], strict=True)
    ]
    begun = [starts[first] for first in firsts]
    if events and not is_flush and len(events[-1]) < rules.max_bytes:
        events.pop()
        end = begun.pop() - position
    return events, begun, end


def _parts(
    lines: list[bytes], starts: list[int], long: bytes, end: int, max_bytes: int, is_inside: bool
) -> Events:
    found = Events([], [], end + len(long), {})
    for index, (line, start) in enumerate(zip(lines, starts, strict=True)):
        pieces = list(_pieces(line, max_bytes)) or [b""]
        for number, piece in enumerate(pieces):
            is_first = number == 0 and not (is_inside and index == 0)
            is_last = number == len(pieces) - 1
            if not (is_first and is_last):
                word = "first" if is_first else "last" if is_last else "middle"
                found.parts[len(found.events)] = word
            found.events.append(_clean(piece))
            found.positions.append(start + number * max_bytes)
    for number, piece in enumerate(_pieces(long, max_bytes)):
        is_first = number == 0 and not (is_inside and not lines)
        found.parts[len(found.events)] = "first" if is_first else "middle"
        found.events.append(piece)
        found.positions.append(end + number * max_bytes)
    return found


def _pieces(line: bytes, max_bytes: int) -> Iterator[bytes]:
    return (line[at : at + max_bytes] for at in range(0, len(line), max_bytes))
