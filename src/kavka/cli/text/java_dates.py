"""Patterns of Java's `SimpleDateFormat`, as `--date-format` takes them. Pure."""

from __future__ import annotations

import re
from datetime import datetime

_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|.", re.DOTALL)


class BadPattern(ValueError):
    """A letter of the pattern has no meaning."""


def format_date(pattern: str, when: datetime) -> str:
    """Return a time in a pattern such as `yyyy-MM-dd HH:mm:ss:SSS`. Raise BadPattern."""
    shown = []
    for match in _TOKEN.finditer(pattern):
        if match[1] is not None:
            shown.append(match[1].replace("''", "'") or "'")
        elif match[2] is None:
            shown.append(match[0])
        else:
            shown.append(_part(match[2], len(match[0]), when))
    return "".join(shown)


def _part(letter: str, width: int, when: datetime) -> str:
    match letter:
        case "y":
            return f"{when.year % 100:02d}" if width == 2 else f"{when.year:0{width}d}"
        case "M" if width >= 3:
            return when.strftime("%b" if width == 3 else "%B")
        case "E":
            return when.strftime("%a" if width <= 3 else "%A")
        case "a":
            return when.strftime("%p")
        case "z" | "Z":
            return when.astimezone().strftime("%Z" if letter == "z" else "%z")
    number = {
        "M": when.month,
        "d": when.day,
        "D": when.timetuple().tm_yday,
        "H": when.hour,
        "k": when.hour or 24,
        "h": when.hour % 12 or 12,
        "K": when.hour % 12,
        "m": when.minute,
        "s": when.second,
        "S": when.microsecond // 1000,
    }.get(letter)
    if number is None:
        raise BadPattern(f"Illegal pattern character '{letter}'")
    return f"{number:0{width}d}"
