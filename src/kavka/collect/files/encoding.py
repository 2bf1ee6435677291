"""From the events of a file to records: parsed, and what cannot be parsed kept with the reason. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kavka.collect.files.events import Events
from kavka.collect.parsers.parsed import Parser, Unparsable
from kavka.collect.record import LogRecords, time_text

_TOO_LONG = "the event is longer than --max-event-bytes"
_MAX_VALUE = 900_000
"""Bytes of a value with its fields; a larger one goes without them, since brokers take a MiB unless they are set."""


class Encoded(NamedTuple):
    """Values of records in order, and of those that could not be parsed where these go elsewhere."""

    values: list[bytes]
    separated: list[bytes]
    errors: int


def encode_events(
    found: Events,
    records: LogRecords,
    parser: Parser | None,
    now_ms: int,
    *,
    separates: bool = False,
) -> Encoded:
    """Return the values of the records of events, in order; with `separates` those without an error alone."""
    collected = time_text(now_ms)
    value = records.value
    pairs = zip(found.events, found.positions, strict=True)
    if parser is None:
        parts = found.parts
        plain = [
            value(event, position, collected, part=parts.get(index) if parts else None)
            for index, (event, position) in enumerate(pairs)
        ]
        return Encoded(plain, [], 0)
    values: list[bytes] = []
    failed: list[bytes] = []
    errors = 0
    for index, (event, position) in enumerate(pairs):
        part = found.parts.get(index)
        try:
            if part is not None:
                raise Unparsable(_TOO_LONG)
            time_ms, fields = parser(event.decode(errors="replace"), now_ms)
            made = value(event, position, collected, time_ms=time_ms, fields=fields)
            if len(made) > _MAX_VALUE:
                raise Unparsable(f"the event and its fields are {len(made)} bytes")
            values.append(made)
        except (Unparsable, ValueError, RecursionError) as error:
            # ValueError: a time or a number that JSON cannot have.
            errors += 1
            made = value(event, position, collected, error=str(error), part=part)
            (failed if separates else values).append(made)
    return Encoded(values, failed, errors)
