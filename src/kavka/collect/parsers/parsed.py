"""The outcome of a parser: the fields of an event and its time, or why it has none. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Unparsable(Exception):
    """An event is not in the format; the sentence says why."""


class Parsed(NamedTuple):
    """The fields of an event, and its time in milliseconds if it has one."""

    time_ms: int | None
    fields: Mapping[str, Any]


Parser = Callable[[str, int], Parsed]
"""Takes an event and the time at which it was read, in milliseconds. Raises Unparsable."""

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
"""As logs have them, whatever the language of the machine is."""
