"""A line of a web server's access log on its way to a topic, and the combined log format.

The combined format is that of Apache's and nginx's access logs:
`host ident user [day/month/year:time zone] "request" status bytes "referrer" "agent"`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_COMBINED = re.compile(
    rf"(?P<visitor>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] (?P<request>{_QUOTED}) "
    rf"(?P<status>[1-5]\d\d) (?:\d+|-) {_QUOTED} {_QUOTED}"
)
_REQUEST = re.compile(r'"[A-Z]+ \S+ HTTP/\d(?:\.\d)?"')


class LogLine(NamedTuple):
    """A line as it leaves the web server.

    `arrived_ms` is when the log was collected, on the clock of the site: lines come in the order of it. `event_ms` is
    the time inside the line, or None when the line is malformed. Invariant: event_ms <= arrived_ms.
    """

    visitor: str
    text: bytes
    arrived_ms: int
    event_ms: int | None


def combined(
    visitor: str, event_ms: int, request: str, status: int, size: int, referrer: str, agent: str
) -> str:
    """Return a line in combined format; `request` is `METHOD path`, `event_ms` is cut to its second."""
    time = datetime.fromtimestamp(event_ms // 1000, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    return f'{visitor} - - [{time}] "{request} HTTP/1.1" {status} {size} "{referrer}" "{agent}"'


def event_time_ms(text: bytes) -> int | None:
    """Return the time of a line in combined format, or None when the line is malformed.

    It is the Python side of the audit: written apart from the pipeline's parser, to disagree when one is wrong.
    """
    try:
        match = _COMBINED.fullmatch(text.decode())
        if match is None or _REQUEST.fullmatch(match["request"]) is None:
            return None
        time = datetime.strptime(match["time"], "%d/%b/%Y:%H:%M:%S %z")
    except ValueError:
        return None
    return int(time.timestamp()) * 1000


def visitor_of(text: bytes) -> str:
    """Return the first word of a line, also of a malformed one; `-` when there is none."""
    words = text.split(maxsplit=1)
    return words[0].decode(errors="replace") if words else "-"
