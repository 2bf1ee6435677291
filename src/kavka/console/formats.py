"""Numbers, sizes, times and bytes as people read them. Pure."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from kavka.console.sentences import Sentence, as_is, say
from kavka.settings.durations import duration_ms

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_NONE: Final = "\N{EN DASH}"
_HEX_BYTES: Final = 16
_HEX_ROWS: Final = 256
"""Rows of a dump that a page shows: 4 kB."""


def count_text(number: int | None) -> str:
    """Return a number with its thousands apart: 1,234,567; a dash for none."""
    return _NONE if number is None else f"{number:,}"


def size_text(size: int | None) -> str:
    """Return bytes in the unit that leaves three digits, powers of 1000: 1.23 GB; a dash for none."""
    if size is None or size < 0:
        return _NONE
    value, unit = float(size), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value /= 1000
        unit += 1
    digits = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {_UNITS[unit]}"


def rate_text(rate: float | None) -> str:
    """Return a rate: 12,345/s, 0.4/s; a dash for none."""
    if rate is None:
        return _NONE
    return f"{rate:,.0f}/s" if rate >= 10 or rate == int(rate) else f"{rate:.1f}/s"


def seconds_text(seconds: float | None) -> Sentence:
    """Return a duration in its two largest units: 3 d 4 h, 2 min 5 s, 0.4 s; a dash for none."""
    if seconds is None:
        return as_is(_NONE)
    if 0 < seconds < 10:
        return say("{amount:.1f} s", amount=seconds)
    whole = round(seconds)
    if whole < 60:
        return say("{amount} s", amount=whole)
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return (
            say("{amount} min {rest} s", amount=minutes, rest=rest)
            if rest
            else say("{amount} min", amount=minutes)
        )
    if whole < 86_400:
        hours, rest = divmod(whole // 60, 60)
        return (
            say("{amount} h {rest} min", amount=hours, rest=rest)
            if rest
            else say("{amount} h", amount=hours)
        )
    days, rest = divmod(whole // 3600, 24)
    return (
        say("{amount} d {rest} h", amount=days, rest=rest)
        if rest
        else say("{amount} d", amount=days)
    )


def span_text(text: str) -> Sentence:
    """Return a duration of a setting, such as 24h, as people read it."""
    return seconds_text(duration_ms(text) / 1000)


def time_text(timestamp_ms: int | None) -> str:
    """Return a time in UTC, 2026-11-26 14:03:12.123 UTC; a dash for none, the number where no calendar has it."""
    if timestamp_ms is None or timestamp_ms < 0:
        return _NONE
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d} UTC"


def iso_time(timestamp_ms: int | None) -> str:
    """Return a time as the attribute `datetime` has it; empty for none."""
    if timestamp_ms is None:
        return ""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, OSError, ValueError):
        return ""


class Shown(NamedTuple):
    """Bytes of a record as a page shows them."""

    kind: str
    """One of null, empty, json, text, binary."""
    text: str
    is_whole: bool


def shown(data: bytes | None, limit: int) -> Shown:
    """Return bytes as indented JSON, as text, or as a dump in hexadecimal; at most `limit` bytes of them.

    JSON is an object or an array; numbers and words alone are text. What is not valid UTF-8, or has control characters
    other than tab and line breaks, is binary.
    """
    if data is None:
        return Shown("null", "", True)
    if not data:
        return Shown("empty", "", True)
    is_whole = len(data) <= limit
    text = _text(data if is_whole else data[:limit], is_whole)
    if text is None:
        rows = data[: min(limit, _HEX_ROWS * _HEX_BYTES)]
        return Shown("binary", hex_dump(rows), len(rows) == len(data))
    if is_whole and text.lstrip()[:1] in ("{", "["):
        try:
            return Shown("json", json.dumps(json.loads(text), indent=2, ensure_ascii=False), True)
        except (ValueError, RecursionError):
            pass
    return Shown("text", text, is_whole)


def one_line(data: bytes | None, limit: int) -> str:
    """Return the beginning of bytes in one line, as a table shows them."""
    if data is None:
        return "null"
    text = _text(data[:limit], len(data) <= limit)
    if text is None:
        head = data[: limit // 4].hex(" ")
        return f"0x {head}{' …' if len(data) > limit // 4 else ''}"
    line = " ".join(text.split())
    return line + ("…" if len(data) > limit else "")


def hex_dump(data: bytes) -> str:
    """Return rows of offset, 16 bytes and their ASCII characters."""
    rows = []
    for start in range(0, len(data), _HEX_BYTES):
        part = data[start : start + _HEX_BYTES]
        ascii_ = "".join(chr(b) if 32 <= b < 127 else "." for b in part)
        rows.append(f"{start:08x}  {part.hex(' '):<{_HEX_BYTES * 3 - 1}}  {ascii_}")
    return "\n".join(rows)


def _text(data: bytes, is_whole: bool) -> str | None:
    """Return the text that bytes are, None where they are none; cut bytes may end within a character."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if is_whole or error.start < len(data) - 3 or error.reason != "unexpected end of data":
            return None
        text = data[: error.start].decode()
    return None if any(c < " " and c not in "\t\r\n" for c in text) or "\x7f" in text else text


def is_text(text: str) -> bool:
    """Return whether a text has bytes in UTF-8. One of JSON may have half of a pair of UTF-16, which has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def utf8_of(text: str) -> bytes:
    r"""Return a text in UTF-8, in which half of a pair of UTF-16 is written as JSON does, such as `\ud800`."""
    return text.encode("utf-8", "backslashreplace")


def sparkline(values: list[float | None], width: int = 120, height: int = 24) -> str:
    """Return the path (SVG) of a line through values at equal distances; gaps stay gaps."""
    known = [value for value in values if value is not None]
    top = max(known, default=0.0) or 1.0
    step = width / max(len(values) - 1, 1)
    path, pen = [], "M"
    for index, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        y = height - 1.5 - value / top * (height - 3)
        path.append(f"{pen}{index * step:.1f} {y:.1f}")
        pen = "L"
    return "".join(path)


def plain(value: Any) -> Any:
    """Return a view as JSON has it: dataclasses and named tuples as objects, tuples as arrays, no NaN."""
    fields = getattr(value, "__dataclass_fields__", None) or getattr(value, "_fields", None)
    if fields is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
