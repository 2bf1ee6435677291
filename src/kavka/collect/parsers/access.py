"""The access log of Apache and nginx: `host ident user [time] "request" status bytes "referrer" "agent"`. Pure.

The common format ends with the bytes. Texts are as the server wrote them, with its escapes.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import Any

from kavka.collect.parsers.parsed import MONTHS, Parsed, Unparsable
from kavka.collect.parsers.times import to_ms

_TEXT = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_LINE = re.compile(
    rf"(\S+) (\S+) (.+?) \[([^\]]+)\] {_TEXT} (\d{{3}}) (\d+|-)(?: {_TEXT} {_TEXT}(?: (.*))?)?"
)
_REQUEST = re.compile(r"(\S+) (.+) (HTTP/\d(?:\.\d)?)")
_NUMBERS = {name: f"{number:02}" for number, name in enumerate(MONTHS, 1)}


def parse(text: str, now_ms: int) -> Parsed:
    """Return the fields of a line. Raise Unparsable."""
    match = _LINE.fullmatch(text)
    if match is None:
        raise Unparsable("the line is not in the combined or the common log format")
    client, ident, user, time, request, status, size, referrer, agent, rest = match.groups()
    fields: dict[str, Any] = {
        "client": client,
        "ident": _none_if_dash(ident),
        "user": _none_if_dash(user),
        "request": request,
        "status": int(status),
        "bytes": 0 if size == "-" else int(size),
    }
    request_line = _REQUEST.fullmatch(request)
    if request_line is not None:
        fields["method"], fields["path"], fields["protocol"] = request_line.groups()
    if referrer is not None:
        fields["referrer"], fields["agent"] = _none_if_dash(referrer), _none_if_dash(agent)
    if rest is not None:
        fields["rest"] = rest
    return Parsed(_time_ms(time), fields)


def _none_if_dash(text: str) -> str | None:
    return None if text == "-" else text


@lru_cache(maxsize=64)
def _time_ms(text: str) -> int:
    """Return the time of `17/May/2015:10:05:03 +0000`, independently of the locale."""
    try:
        day, month, rest = text.split("/", 2)
        year, clock = rest.split(":", 1)
        hours, zone = clock.split(" ")
        moment = datetime.fromisoformat(f"{year}-{_NUMBERS[month]}-{day}T{hours}{zone}")
        return to_ms(moment, None)
    except (KeyError, ValueError):
        raise Unparsable(f"{text!r} is no time such as 17/May/2015:10:05:03 +0000") from None
