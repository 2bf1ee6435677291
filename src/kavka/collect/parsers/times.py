"""Times in log events: ISO 8601, numbers of seconds to nanoseconds, and formats of `strptime`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

_DEFAULT_FIELDS = ("time", "timestamp", "@timestamp", "ts")


class TimeRules(NamedTuple):
    """The field of an event's time, and its format."""

    field: str | None
    format: str | None
    zone: tzinfo | None


def to_ms(moment: datetime, zone: tzinfo | None) -> int:
    """Return milliseconds since 1970; `zone` is that of a time without one, None the machine's. Raise ValueError."""
    try:
        if moment.tzinfo is None:
            moment = moment.astimezone() if zone is None else moment.replace(tzinfo=zone)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    except OverflowError as error:
        raise ValueError(str(error)) from error
    return since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000


def number_to_ms(number: float) -> int:
    """Return milliseconds of a time since 1970 in seconds, milli-, micro- or nanoseconds, which its size tells apart.

    Raise ValueError for one that is no time between 1970 and 2286.
    """
    if isinstance(number, bool) or not 0 <= number < 1e19:  # NaN, too
        raise ValueError(f"{number} is no time")
    for bound, factor in ((1e10, 1000.0), (1e13, 1.0), (1e16, 1e-3)):
        if number < bound:
            return int(number * factor) if isinstance(number, float) else _scaled(number, factor)
    return int(number) // 1_000_000


def _scaled(number: int, factor: float) -> int:
    return number * int(factor) if factor >= 1 else number // 1000


def text_to_ms(text: str, zone: tzinfo | None) -> int:
    """Return milliseconds of a text in ISO 8601, or of a number. Raise ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return number_to_ms(float(text) if "." in text else int(text))
        except ValueError:
            raise ValueError(f"{text[:64]!r} is no time in ISO 8601 and no number") from None
    return to_ms(moment, zone)


class FieldTime:
    """Finds the time among the fields of an event."""

    def __init__(self, rules: TimeRules) -> None:
        """Set the rules; without a field's name the usual names are tried."""
        self._rules = rules

    def of(self, fields: Mapping[str, Any]) -> int | None:
        """Return the time; None if no field was required and no field has a time. Raise ValueError."""
        if self._rules.field is not None:
            if self._rules.field not in fields:
                raise ValueError(f"the field {self._rules.field} is missing")
            return self._read(fields[self._rules.field])
        for name in _DEFAULT_FIELDS:
            if name in fields:
                try:
                    return self._read(fields[name])
                except ValueError:
                    continue  # a field of that name that is not a time
        return None

    def _read(self, value: Any) -> int:
        if isinstance(value, int | float):
            return number_to_ms(value)
        if not isinstance(value, str):
            raise ValueError(f"a time is a text or a number, not {type(value).__name__}")
        if self._rules.format is None:
            return text_to_ms(value, self._rules.zone)
        return to_ms(datetime.strptime(value, self._rules.format), self._rules.zone)
