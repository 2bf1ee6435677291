"""Encodes the events of a file as records: parsed, or with the reason for which they cannot be parsed. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kavka.collect.files.events import Events
from kavka.collect.parsers.parsed import Parser, Unparsable
from kavka.collect.record import LogRecords, time_text

_TOO_LONG = "the event is longer than --max-event-bytes"
_MAX_VALUE_BYTES = 900_000
"""Maximum size of a value with fields; a larger one is sent without: the default limit of brokers is a MiB."""


class EncodedEvents(NamedTuple):
    """Values of records in order, and those of the dead letter topic."""

    values: list[bytes]
    dead_letters: list[bytes]
    errors: int


def encode_events(
    events: Events,
    records: LogRecords,
    parser: Parser | None,
    now_ms: int,
    *,
    separates_errors: bool = False,
) -> EncodedEvents:
    """Return the values of the records of events, in order; `separates_errors` makes unparsed ones dead letters."""
    collected = time_text(now_ms)
    encode = records.value
    pairs = zip(events.events, events.positions, strict=True)
    if parser is None:
        parts = events.parts
        plain = [
            encode(event, position, collected, part=parts.get(index) if parts else None)
            for index, (event, position) in enumerate(pairs)
        ]
        return EncodedEvents(plain, [], 0)
    values: list[bytes] = []
    dead_letters: list[bytes] = []
    errors = 0
    for index, (event, position) in enumerate(pairs):
        part = events.parts.get(index)
        try:
            if part is not None:
                raise Unparsable(_TOO_LONG)
            time_ms, fields = parser(event.decode(errors="replace"), now_ms)
            value = encode(event, position, collected, time_ms=time_ms, fields=fields)
            if len(value) > _MAX_VALUE_BYTES:
                raise Unparsable(f"the event and its fields are {len(value)} bytes")
            values.append(value)
        except (Unparsable, ValueError, RecursionError) as error:
            # ValueError: a time or a number that JSON cannot have.
            errors += 1
            value = encode(event, position, collected, error=str(error), part=part)
            (dead_letters if separates_errors else values).append(value)
    return EncodedEvents(values, dead_letters, errors)
