"""The time now; times and durations as ISO 8601 writes them and Kafka's tools take them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from kavka.cli.arguments.options import BadValue

_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d{1,19})D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d{1,19})H)?(?:(?P<minutes>[-+]?\d{1,19})M)?"
    r"(?:(?P<seconds>[-+]?\d{1,19})(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.IGNORECASE,
)
_MAX_MS = 1 << 62
"""A time that is as far from now has 64 bits."""


def current_time_ms() -> int:
    """Return the milliseconds since 1970, by the machine's clock."""
    return int(time.time() * 1000)


def moment_ms(text: str) -> int:
    """Return the milliseconds since 1970 of `2024-05-01T12:00:00.000`, in UTC unless it names an offset."""
    if "T" not in text:
        raise BadValue(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        )
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadValue(f'java.text.ParseException: Unparseable date: "{text}"') from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def duration_ms(text: str) -> int:
    """Return the milliseconds of `P1DT2H3M4.5S`."""
    match = _DURATION.fullmatch(text)
    if match is None or match["time"] in ("T", "t") or text[-1:] in "Pp":
        raise BadValue("Text cannot be parsed to a Duration")
    seconds = int(match["days"] or 0) * 86_400
    seconds += int(match["hours"] or 0) * 3600 + int(match["minutes"] or 0) * 60
    total = (seconds + int(match["seconds"] or 0)) * 1000
    fraction_ms = int(((match["fraction"] or "") + "000")[:3])
    total += -fraction_ms if (match["seconds"] or "").startswith("-") else fraction_ms
    if abs(total) > _MAX_MS:
        raise BadValue("Text cannot be parsed to a Duration")
    return -total if match["sign"] == "-" else total
