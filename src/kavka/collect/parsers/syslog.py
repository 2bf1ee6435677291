"""Syslog: RFC 5424, RFC 3164, and what daemons write into files, with or without a priority in front. Pure.

<34>1 2003-10-11T22:14:15.003Z host app 123 ID47 [a@1 b="c"] text      RFC 5424
<34>Oct 11 22:14:15 host app[123]: text                                RFC 3164; in a file without `<34>`
2003-10-11T22:14:15.003+02:00 host app[123]: text                      rsyslog's files since Debian 12
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from kavka.collect.parsers.parsed import MONTHS, Parsed, Unparsable
from kavka.collect.parsers.times import to_ms

_RFC_5424 = re.compile(
    r"<(\d{1,3})>1 (\S+) (\S+) (\S+) (\S+) (\S+) (-|(?:\[(?:[^\]\\\"]|\"(?:[^\"\\]|\\.)*\")+\])+)(?: (.*))?",
    re.DOTALL,
)
_RFC_3164 = re.compile(
    r"(?:<(\d{1,3})>)?"
    r"(?:([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d)|(\d{4}-\d\d-\d\dT\S+)) "
    r"(\S+) (?:([^\s:\[]+)(?:\[([^\]\s]*)\])?: ?)?(.*)",
    re.DOTALL,
)
_ELEMENT = re.compile(r"\[([^\s\]=\"]+)((?: [^\s\]=\"]+=\"(?:[^\"\\]|\\.)*\")*)\]")
_PARAMETER = re.compile(r" ([^\s\]=\"]+)=\"((?:[^\"\\]|\\.)*)\"")
_ESCAPE = re.compile(r"\\([\"\\\]])")
_SEVERITIES = ("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug")


class Syslog:
    """Parses lines whose times may have neither year nor zone."""

    def __init__(self, zone: tzinfo | None) -> None:
        """Set the zone of RFC 3164's times; None is the machine's."""
        self._zone = zone

    def parse(self, text: str, now_ms: int) -> Parsed:
        """Return the fields of a line. Raise Unparsable."""
        match = _RFC_5424.fullmatch(text)
        if match is not None:
            return self._parse_rfc_5424(match)
        match = _RFC_3164.fullmatch(text)
        if match is None:
            raise Unparsable("the line is no syslog of RFC 5424 or RFC 3164")
        return self._parse_rfc_3164(match, now_ms)

    def _parse_rfc_5424(self, match: re.Match[str]) -> Parsed:
        priority, time, host, app, process, message_id, structured, message = match.groups()
        fields = _priority(priority)
        header = {"hostname": host, "app": app, "process_id": process, "message_id": message_id}
        fields |= {name: value for name, value in header.items() if value != "-"}
        if structured != "-":
            fields["structured_data"] = _structured(structured)
        fields["message"] = (message or "").removeprefix("\ufeff")
        return Parsed(None if time == "-" else self._iso(time), fields)

    def _parse_rfc_3164(self, match: re.Match[str], now_ms: int) -> Parsed:
        priority, month, day, hour, minute, second, iso, host, app, process, message = (
            match.groups()
        )
        fields = {} if priority is None else _priority(priority)
        fields["hostname"] = host
        if app is not None:
            fields["app"] = app
        if process is not None:
            fields["process_id"] = process
        fields["message"] = message
        if iso is not None:
            return Parsed(self._iso(iso), fields)
        clock = (int(day), int(hour), int(minute), int(second))
        return Parsed(self._without_year(month, clock, now_ms), fields)

    def _iso(self, text: str) -> int:
        try:
            return to_ms(datetime.fromisoformat(text), self._zone)
        except ValueError:
            raise Unparsable(f"{text!r} is no time of RFC 3339") from None

    def _without_year(self, month: str, clock: tuple[int, int, int, int], now_ms: int) -> int:
        """Return the last such time that is at most a day ahead: RFC 3164 has no year."""
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        for year in range(now.year + 1, now.year - 9, -1):  # 29 February may be eight years ago
            try:
                number = MONTHS.index(month) + 1
                time_ms = to_ms(datetime(year, number, *clock), self._zone)
            except ValueError:
                continue
            if time_ms <= now_ms + timedelta(days=1) // timedelta(milliseconds=1):
                return time_ms
        raise Unparsable(f"{month} {clock[0]} is no day")


def _priority(text: str) -> dict[str, Any]:
    number = int(text)
    if number > 191:
        raise Unparsable(f"<{text}> is no priority: the highest is 191")
    return {"facility": number >> 3, "severity": _SEVERITIES[number & 7]}


def _structured(text: str) -> dict[str, dict[str, str]]:
    elements: dict[str, dict[str, str]] = {}
    position = 0
    while position < len(text):
        element = _ELEMENT.match(text, position)
        if element is None:
            raise Unparsable("the structured data is not that of RFC 5424")
        parameters = _PARAMETER.findall(element[2])
        elements.setdefault(element[1], {}).update(
            {name: _ESCAPE.sub(r"\1", value) for name, value in parameters}
        )
        position = element.end()
    return elements
