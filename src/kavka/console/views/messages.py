"""Records as pages show them, and how far a search has looked. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kavka.client.consumer.batches import ConsumerRecord
from kavka.client.schemas.errors import SchemaError
from kavka.console.formats import Shown, count_text, hex_dump, one_line, shown, size_text, utf8_of
from kavka.console.json_paths import condition_of
from kavka.console.registry import Decoded, NotLearned, json_text
from kavka.console.sentences import NOTHING, Sentence, say

_LINE_BYTES: Final = 240
BODY_BYTES: Final = 16_000
"""Bytes of a value that a list shows; the page of a record shows more."""
RECORD_BYTES: Final = 256_000
_NAMED: Final = 10
"""Partitions that a sentence names."""
_MOST_POSITIONS: Final = 10_000
"""Characters of an address's positions; servers and browsers bound addresses."""


@dataclass(frozen=True, slots=True)
class HeaderView:
    """A header of a record."""

    name: str
    value: str
    kind: str
    is_whole: bool


@dataclass(frozen=True, slots=True)
class RecordView:
    """A record; `kind` of key and value is null, empty, json, text or binary (shown in hexadecimal)."""

    partition: int
    offset: int
    timestamp_ms: int | None
    timestamp_type: str
    """created (the producer's time) or appended (the broker's)."""
    key: str
    key_kind: str
    key_is_whole: bool
    value: str
    value_kind: str
    value_is_whole: bool
    value_bytes: int | None
    line: str
    """The beginning of the value in one line."""
    headers: list[HeaderView]
    key_schema: str
    """The schema of the registry by which the key was decoded, or why it was not; empty for other keys."""
    value_schema: str


Decode = Callable[[bytes | None], Decoded | None]
"""Returns what a schema of the registry makes of bytes, None where there is none."""
_HEX_BYTES: Final = 64_000


def _field(data: bytes | None, limit: int, decode: Decode | None) -> tuple[Shown, str]:
    """Return a key or value, and its schema."""
    try:
        found = None if decode is None else decode(data)
    except (SchemaError, ValueError, RecursionError) as error:
        return shown(data, limit), f"not decoded: {error}"
    if found is None:
        return shown(data, limit), ""
    text = json_text(found.value)
    return Shown(
        "json", text[:limit], len(text) <= limit
    ), f"{found.kind}, schema {found.schema_id}"


def hexadecimal(record: ConsumerRecord, view: RecordView) -> RecordView:
    """Return a record whose key and value are shown in hexadecimal, the first 64 kB of each."""
    fields: dict[str, Any] = {}
    for name, data in (("key", record.key), ("value", record.value)):
        if data:
            fields |= {name: hex_dump(data[:_HEX_BYTES]), f"{name}_kind": "binary"}
            fields[f"{name}_is_whole"] = len(data) <= _HEX_BYTES
    return replace(view, **fields)


def record_view(
    record: ConsumerRecord, limit: int = BODY_BYTES, decode: Decode | None = None
) -> RecordView:
    """Return a record, with at most `limit` bytes of its value; `decode` may block."""
    key, key_schema = _field(record.key, limit, decode)
    value, value_schema = _field(record.value, limit, decode)
    is_decoded = value_schema and value.kind == "json"
    line = utf8_of(" ".join(value.text.split())) if is_decoded else record.value
    return RecordView(
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
        timestamp_type="appended" if record.timestamp_type == 1 else "created",
        key=key.text,
        key_kind=key.kind,
        key_is_whole=key.is_whole,
        value=value.text,
        value_kind=value.kind,
        value_is_whole=value.is_whole,
        value_bytes=None if record.value is None else len(record.value),
        line=one_line(line, _LINE_BYTES),
        key_schema=key_schema,
        value_schema=value_schema,
        headers=[
            HeaderView(name, body.text, body.kind, body.is_whole)
            for name, body in ((name, shown(data, 2_000)) for name, data in record.headers)
        ],
    )


@dataclass(frozen=True, slots=True)
class Filter:
    """The records that a search keeps; the case of the letters A to Z is ignored."""

    key: str = ""
    text: str = ""
    header: str = ""
    """`name`, or `name=text`."""
    path: str = ""
    """A condition on values that are JSON, or were written with a schema: `$.user.id = 42`."""

    @property
    def is_empty(self) -> bool:
        """Return whether all records are kept."""
        return not (self.key or self.text or self.header or self.path)


class Matcher:
    """Decides about records, in bytes."""

    def __init__(
        self, wanted: Filter, decode_learned: Callable[[bytes], Any] | None = None
    ) -> None:
        """Take the filter; `decode_learned` reads values of a registry. Raise ValueError for a path that is none."""
        self._condition = condition_of(wanted.path) if wanted.path else None
        self._decode_learned = decode_learned
        self.not_learned: set[int] = set()
        """Schemas of values that were passed over, because they were not asked for yet."""
        self._key = wanted.key.lower().encode()
        self._text = wanted.text.lower().encode()
        name, equals, value = wanted.header.partition("=")
        self._header_name = name.strip().lower()
        self._header_value = value.lower().encode() if equals else b""

    def __call__(self, record: ConsumerRecord) -> bool:
        """Return whether a record is kept."""
        if self._key and self._key not in (record.key or b"").lower():
            return False
        if self._header_name and not self._has_header(record):
            return False
        if self._text and not self._has_text(record):
            return False
        return self._condition is None or self._meets(record.value)

    def _meets(self, value: bytes | None) -> bool:
        assert self._condition is not None, "there is a condition"
        if not value:
            return False
        try:
            if self._decode_learned is not None and value[0] == 0:
                found = self._decode_learned(value)
            else:
                found = json.loads(value)
            return self._condition.holds(found)
        except NotLearned as error:
            self.not_learned.add(error.schema_id)
            return False
        except (SchemaError, ValueError, RecursionError):  # no JSON, or too deep to compare
            return False

    def _has_header(self, record: ConsumerRecord) -> bool:
        return any(
            name.lower() == self._header_name and self._header_value in (value or b"").lower()
            for name, value in record.headers
        )

    def _has_text(self, record: ConsumerRecord) -> bool:
        fields: Iterable[bytes | None] = (
            record.value,
            record.key,
            *(value for _, value in record.headers),
        )
        return any(self._text in field.lower() for field in fields if field)


@dataclass(frozen=True, slots=True)
class PartitionReach:
    """The offsets of a partition that a search has looked at: from `first` up to and without `next`."""

    partition: int
    first: int
    next: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class SilentPartitions:
    """Partitions of which nothing came, and their leader; null where they have none."""

    leader: int | None
    partitions: list[int]
    reason: str
    sentence: Sentence


@dataclass(frozen=True, slots=True)
class Reach:
    """The reach of a search, and the reason of its end: end, found, records, bytes, time or unanswered.

    A search that ended as unanswered has looked at all of the partitions that answered.
    """

    records: int
    size_bytes: int
    ended: str
    sentence: Sentence
    partitions: list[PartitionReach]
    unanswered: list[SilentPartitions]


def silent_partitions(
    reasons: Mapping[int, str], leaders: Mapping[int, int]
) -> list[SilentPartitions]:
    """Return the partitions of which nothing came, by leader; a partition without one is not in `leaders`."""
    of_leaders: dict[int | None, list[int]] = {}
    for partition in sorted(reasons):
        of_leaders.setdefault(leaders.get(partition), []).append(partition)
    return [
        SilentPartitions(leader, found, reasons[found[0]], _silence(leader, found, reasons))
        for leader, found in of_leaders.items()
    ]


def _silence(leader: int | None, found: list[int], reasons: Mapping[int, str]) -> Sentence:
    named = ", ".join(map(str, found[:_NAMED]))
    if len(found) > _NAMED:
        named = say("{listed} and {more} more", listed=named, more=len(found) - _NAMED)
    ending = "" if len(found) == 1 else "s"
    if leader is None:
        return say(
            "Nothing came from partition{s} {partitions}: there is no leader.",
            s=ending,
            partitions=named,
        )
    return say(
        "Nothing came from partition{s} {partitions}, led by broker {leader}: {reason}.",
        s=ending,
        partitions=named,
        leader=leader,
        reason=reasons[found[0]].rstrip("."),
    )


_REASONS: Final = {
    "end": say("That is all there is"),
    "found": say("It ended with as many as were wanted"),
    "records": say("It ended at its bound of records"),
    "bytes": say("It ended at its bound of bytes"),
    "time": say("It ended at its bound of time"),
    "unanswered": say("That is all that the brokers which answered have"),
}


def reach_of(
    records: int,
    size_bytes: int,
    ended: str,
    partitions: Sequence[PartitionReach],
    unanswered: Sequence[SilentPartitions] = (),
) -> Reach:
    """Return the reach with its sentence."""
    if unanswered and ended == "end":
        ended = "unanswered"
    sentence = say(
        "Looked at {records} record{s} ({size}) of {partitions:,} partition{s_2}. {end}.",
        records=count_text(records),
        s="" if records == 1 else "s",
        size=size_text(size_bytes),
        partitions=len(partitions),
        s_2="" if len(partitions) == 1 else "s",
        end=_REASONS[ended],
    )
    return Reach(records, size_bytes, ended, sentence, list(partitions), list(unanswered))


@dataclass(frozen=True, slots=True)
class MessageList:
    """The records that were found, and the positions at which a search would go on."""

    topic: str
    partitions: int
    records: list[RecordView]
    newest_first: bool
    reach: Reach
    older: str
    """The value of `at` for the records before these, with `start=before`; empty when there are none."""
    newer: str
    """The value of `at` for the records after these, with `start=at`."""
    note: Sentence
    """The reason why there are no such values although there are more records."""


def steps_of(older: Mapping[int, int], newer: Mapping[int, int]) -> tuple[str, str, Sentence]:
    """Return the values of `at` for older and for newer records, or why an address cannot hold them."""
    texts = positions_text(older), positions_text(newer)
    if max(map(len, texts)) > _MOST_POSITIONS:
        return "", "", say("There are too many partitions to go on in all of them: choose one.")
    return *texts, NOTHING


def positions_text(positions: Mapping[int, int]) -> str:
    """Return positions by partition as an address has them: `0:123,1:456`."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


def positions_of(text: str) -> dict[int, int]:
    """Return the positions of such a text. Raise ValueError."""
    found = {}
    for item in text.split(","):
        partition, colon, offset = item.strip().partition(":")
        if not (colon and partition.isdecimal() and offset.isdecimal()):
            raise ValueError(f"{item[:50]!r} is no position such as 0:123")
        found[int(partition)] = int(offset)
    return found
