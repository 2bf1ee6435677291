"""The result of a poll: record batches as received, decoded only on request. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kavka.client.serialization import FieldFunction, SerializationContext
from kavka.errors import ErrorCode, KafkaError, PickledError
from kavka.ids import TopicPartition
from kavka.io import Buffer, TakeMemory
from kavka.net.frame_memory import RECORDS, Slices
from kavka.values import frozen, replace
from kavka.wire.records.batch import Record, decode_as
from kavka.wire.records.columns import BytesColumn, Columns, concat, decode_batches
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import BatchHeader, batch_crc

_MOST_SHOWN = 200


class RecordDeserializationError(PickledError):
    """A deserializer raised for the key or the value of a record; its exception is the `__cause__`.

    The position of the partition stays at the record: the same error is raised again until the user seeks past it.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        offset: int,
        part: str,
        record: ConsumerRecord,
        cause: Exception,
    ) -> None:
        """Name the record, and what the deserializer raised; `part` is "key" or "value"."""
        super().__init__(
            f"Error deserializing {part} for partition {topic_partition} at offset {offset}: "
            f"{cause!r:.{_MOST_SHOWN}}. "
            "If needed, please seek past the record to continue consumption."
        )
        self.topic_partition = topic_partition
        self.offset = offset
        self.part = part
        self.record = record
        """The record with key and value as bytes, to be put aside (KIP-1036)."""


class CorruptRecordError(KafkaError):
    """A batch breaks the format or its checksum (CORRUPT_MESSAGE); the position stays before it, too."""

    def __init__(self, topic_partition: TopicPartition, offset: int, cause: object) -> None:
        """Name the batch by the first offset that it would have given."""
        detail = f"Record batch for partition {topic_partition} at offset {offset} is invalid, cause: {cause}"
        super().__init__(ErrorCode.CORRUPT_MESSAGE, detail)
        self.topic_partition = topic_partition
        self.offset = offset


RecordError = RecordDeserializationError | CorruptRecordError


class ConsumerRecord(NamedTuple):
    """A record and where it stands; key and value are bytes unless the consumer has deserializers."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]


@frozen
class Deserializers:
    """The deserializers of keys and values; None leaves bytes."""

    key: FieldFunction | None = None
    value: FieldFunction | None = None


_AS_IT_IS: tuple[Any, bool] = (None, False)

GoBack = Callable[[TopicPartition, int, int], bool]
"""Move the position of a partition from one offset back to another; false when it is not at the first any more."""


class Chunk(NamedTuple):
    """Batches of one partition as one response brought them, without those that must not be seen."""

    buffer: Buffer
    headers: list[BatchHeader]
    next_offset: int
    """The next offset to fetch."""
    size: int
    """Bytes."""


class FetchedBatches:
    """Consecutive batches of one partition.

    The three ways to read them, from slow to fast: `records` makes an object per record; `columns` gives buffers of
    offsets, timestamps, keys and values; `to_arrow` wraps these as an Arrow record batch, of which nothing is
    copied. All may be called any number of times.

    Where a record cannot be returned, the batches end before it (`next_offset` says so), and the consumer's
    position goes back to it, so that the next poll begins there. Raise CorruptRecordError, and `records` also
    RecordDeserializationError, when it is the first, or when the consumer has read on meanwhile.
    """

    __slots__ = (
        "_checks",
        "_deserializers",
        "_failure",
        "_spans",
        "first_offset",
        "go_back",
        "next_offset",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        spans: list[tuple[Buffer, list[BatchHeader]]],
        first_offset: int,
        next_offset: int,
        *,
        check_crcs: bool,
        deserializers: Deserializers,
    ) -> None:
        """Hand out the records from `first_offset` up to and without `next_offset`."""
        self.topic_partition = topic_partition
        self._spans = spans
        self.first_offset = first_offset
        self.next_offset = next_offset
        self._checks = check_crcs
        self._deserializers = deserializers
        self._failure: RecordError | None = None
        self.go_back: GoBack | None = None
        """Moves the consumer's position from `next_offset` back; without it nothing can."""

    @property
    def topic(self) -> str:
        """The topic."""
        return self.topic_partition.topic

    @property
    def partition(self) -> int:
        """The partition."""
        return self.topic_partition.partition

    @property
    def size(self) -> int:
        """Bytes of the batches as they are stored."""
        return sum(header.size for _, headers in self._spans for header in headers)

    def __len__(self) -> int:
        """Return how many records there are; at both ends of a cut batch this decodes."""
        total = 0
        for buffer, headers in self._spans:
            for header in headers:
                if self._is_whole(header):
                    total += header.record_count
                else:
                    total += len(self._batch_records(buffer, header))
        return total

    def records(self) -> list[ConsumerRecord]:
        """Return the records as objects, deserialized."""
        self._raise_failure()
        made: list[ConsumerRecord] = []
        has_deserializers = self._deserializers.key or self._deserializers.value
        topic_partition = tuple(self.topic_partition)
        try:
            for buffer, headers in self._spans:
                for header in headers:
                    if has_deserializers:
                        self._deserialize(self._batch_records(buffer, header), made)
                    else:
                        made += self._batch_records(buffer, header, ConsumerRecord, topic_partition)
        except (CorruptRecordError, RecordDeserializationError) as error:
            self._end_before(error, is_first=not made)
        return made

    def _deserialize(self, records: list[Record], made: list[ConsumerRecord]) -> None:
        topic, partition = self.topic_partition
        key_of, key_context = self._deserializers.key or _AS_IT_IS
        value_of, value_context = self._deserializers.value or _AS_IT_IS
        part = "key"
        record: Record | None = None
        try:
            for record in records:
                offset, timestamp, kind, key, value, headers = record
                part = "key"
                if key_context:
                    at = SerializationContext(topic, "key", headers, partition, offset)
                    key = key_of(key, at)
                elif key_of is not None:
                    key = key_of(key)
                part = "value"
                if value_context:
                    at = SerializationContext(topic, "value", headers, partition, offset)
                    value = value_of(value, at)
                elif value_of is not None:
                    value = value_of(value)
                fields = (topic, partition, offset, timestamp, kind, key, value, headers)
                made.append(tuple.__new__(ConsumerRecord, fields))
        except Exception as error:
            assert record is not None
            raw = ConsumerRecord(topic, partition, *record)
            raise RecordDeserializationError(
                self.topic_partition, record.offset, part, raw, error
            ) from error

    def columns(self) -> Columns:
        """Return the records as columns; deserializers are not used."""
        return self._columns(None)

    def _columns(self, take_values: TakeMemory | None) -> Columns:
        """Return the records as columns, whose values are in memory of `take_values`."""
        self._raise_failure()
        batches = [
            (buffer, header)
            for buffer, headers in self._spans
            for header in headers
            if not header.is_control
        ]
        try:
            return self._decode(batches, take_values)
        except CorruptRecordError:
            return self._before_damage(batches)

    def _before_damage(self, batches: list[tuple[Buffer, BatchHeader]]) -> Columns:
        """Decode batches one by one, those before the damage."""
        pieces: list[Columns] = []
        try:
            for batch in batches:
                pieces.append(self._decode([batch], None))
        except CorruptRecordError as error:
            self._end_before(error, is_first=not pieces)
        return concat(pieces)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _end_before(self, error: RecordError, *, is_first: bool) -> None:
        """Leave the record of `error` to the next poll; raise `error` when there is nothing before it."""
        came_back = self.go_back is not None and self.go_back(
            self.topic_partition, self.next_offset, error.offset
        )
        if came_back:
            self.next_offset = error.offset
        if is_first or not came_back:
            self._failure = error
            raise error

    def to_arrow(self, *, headers: bool = False) -> Any:
        """Return a `pyarrow.RecordBatch` with the columns of Spark's Kafka source; needs the extra `arrow`."""
        from kavka.wire.records.arrow import to_arrow

        return to_arrow(self._columns(RECORDS.take), self.topic, self.partition, headers=headers)

    def _is_whole(self, header: BatchHeader) -> bool:
        return header.base_offset >= self.first_offset and header.last_offset < self.next_offset

    def _batch_records(
        self,
        buffer: Buffer,
        header: BatchHeader,
        record_type: type[Any] = Record,
        prefix: tuple[Any, ...] = (),
    ) -> list[Any]:
        self._check(buffer, header)
        try:
            records = decode_as(record_type, prefix, buffer, header, take=RECORDS.take)
        except CorruptBatch as error:
            raise self._corrupt(header, error) from error
        if self._is_whole(header):
            return records
        return [r for r in records if self.first_offset <= r.offset < self.next_offset]

    def _decode(
        self, batches: list[tuple[Buffer, BatchHeader]], take_values: TakeMemory | None
    ) -> Columns:
        next_offset = self.first_offset
        for buffer, header in batches:
            self._check(buffer, header)
            next_offset = max(next_offset, header.last_offset + 1)
        try:
            columns = decode_batches(
                batches,
                next_offset,
                from_offset=self.first_offset,
                take_body=Slices(RECORDS).take,  # they are dropped here
                take_values=take_values,
            )
        except CorruptBatch as error:
            raise self._corrupt(batches[0][1], error) from error
        if columns.count and columns.offset_at(columns.count - 1) >= self.next_offset:
            columns = cut_before(columns, self.next_offset)
        return columns

    def _check(self, buffer: Buffer, header: BatchHeader) -> None:
        if self._checks and batch_crc(buffer, header) != header.crc:
            raise self._corrupt(header, "the checksum does not match")

    def _corrupt(self, header: BatchHeader, cause: object) -> CorruptRecordError:
        return CorruptRecordError(
            self.topic_partition, max(header.base_offset, self.first_offset), cause
        )


def cut_before(columns: Columns, offset: int) -> Columns:
    """Return the records below `offset`, which share the buffers with `columns`."""
    offsets = memoryview(columns.offsets).cast("B").cast("q")
    low, high = 0, columns.count
    while low < high:
        middle = (low + high) // 2
        if offsets[middle] < offset:
            low = middle + 1
        else:
            high = middle
    return replace(
        columns,
        count=low,
        next_offset=offset,
        key=_recount(columns.key),
        value=_recount(columns.value),
        header_value=_recount(columns.header_value),
    )


def _recount(column: BytesColumn) -> BytesColumn:
    """Forget how many rows are null, since some are left out; Arrow counts again at -1."""
    return column if column.validity is None else replace(column, null_count=-1)
