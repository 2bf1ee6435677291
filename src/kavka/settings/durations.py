"""Durations as people write them in options and rules: `500ms`, `90s`, `15m` or `15min`, `1h30m`, `1.5h`, `5d`."""

from __future__ import annotations

import re

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|min|s|m|h|d)"
_PARTS = re.compile(f"(?:{_PART})+")
_ONE_PART = re.compile(_PART)


def duration_ms(text: str, *, default_unit: str | None = None) -> int:
    """Return the milliseconds of a duration. Raise ValueError.

    A number without a unit is in `default_unit`; it is refused when there is none.
    """
    text = text.strip()
    if default_unit is not None and text.isdecimal():
        text += default_unit
    if not _PARTS.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration such as 500ms, 90s or 1h30m")
    return sum(_part_ms(number, unit) for number, unit in _ONE_PART.findall(text))


def _part_ms(number: str, unit: str) -> int:
    whole, _, fraction = number.partition(".")
    scale: int = 10 ** len(fraction)
    # In whole numbers, because a float is exact up to 2**53 only.
    return (int(whole + fraction) * _UNIT_MS[unit] * 2 + scale) // (2 * scale)
