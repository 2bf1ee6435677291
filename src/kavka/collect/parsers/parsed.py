"""The result of a parser: the fields and the time of an event, or an error. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Unparsable(Exception):
    """An event is not in the format; the message says why."""


class Parsed(NamedTuple):
    """The fields of an event, and its time in milliseconds if it has one."""

    time_ms: int | None
    fields: Mapping[str, Any]


Parser = Callable[[str, int], Parsed]
"""Parses an event, given the time of its collection in milliseconds. Raises Unparsable."""

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
"""Abbreviations in logs, independently of the locale."""
