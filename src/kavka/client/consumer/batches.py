"""What a poll returns: record batches as they came, decoded only when and how the user asks. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kavka.doors import Buffer
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.values import frozen, replace
from kavka.wire.records.batch import Record, decode_as
from kavka.wire.records.columns import BytesColumn, Columns, concat, decode_columns
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import BatchHeader, batch_crc


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
    """How `records` turns bytes into objects; None leaves them."""

    key: Callable[[Any], Any] | None = None
    value: Callable[[Any], Any] | None = None


class Chunk(NamedTuple):
    """Batches of one partition as one answer brought them, without those that must not be seen."""

    buffer: Buffer
    headers: list[BatchHeader]
    next_offset: int
    """Where to fetch on."""
    size: int
    """Bytes."""


class FetchedBatches:
    """Consecutive batches of one partition.

    The three ways to read them, from slow to fast: `records` makes an object per record; `columns` gives buffers of
    offsets, timestamps, keys and values; `to_arrow` wraps these as an Arrow record batch, of which nothing is
    copied. All may be called any number of times. Raise KafkaError CORRUPT_MESSAGE for what cannot be decoded.
    """

    __slots__ = ("_checks", "_deserializers", "_spans", "at", "first_offset", "next_offset")

    def __init__(
        self,
        at: TopicPartition,
        spans: list[tuple[Buffer, list[BatchHeader]]],
        first_offset: int,
        next_offset: int,
        *,
        check_crcs: bool,
        deserializers: Deserializers,
    ) -> None:
        """Hand out the records from `first_offset` up to and without `next_offset`."""
        self.at = at
        self._spans = spans
        self.first_offset = first_offset
        self.next_offset = next_offset
        self._checks = check_crcs
        self._deserializers = deserializers

    @property
    def topic(self) -> str:
        """The topic."""
        return self.at.topic

    @property
    def partition(self) -> int:
        """The partition."""
        return self.at.partition

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
        topic, partition = self.at
        key_of, value_of = self._deserializers.key, self._deserializers.value
        made: list[ConsumerRecord] = []
        place = (topic, partition)
        if key_of is None and value_of is None:
            for buffer, headers in self._spans:
                for header in headers:
                    made += self._batch_records(buffer, header, ConsumerRecord, place)
            return made
        for buffer, headers in self._spans:
            for header in headers:
                for offset, timestamp, kind, key, value, headers_ in self._batch_records(
                    buffer, header
                ):
                    fields = (
                        topic,
                        partition,
                        offset,
                        timestamp,
                        kind,
                        key if key_of is None else key_of(key),
                        value if value_of is None else value_of(value),
                        headers_,
                    )
                    made.append(tuple.__new__(ConsumerRecord, fields))
        return made

    def columns(self) -> Columns:
        """Return the records as columns; deserializers are not used."""
        pieces = []
        for buffer, headers in self._spans:
            for first, last in _runs(headers):
                pieces.append(self._decode_run(buffer, headers[first:last]))
        if not pieces:
            pieces = [decode_columns(b"", from_offset=self.first_offset)]
        return concat(pieces)

    def to_arrow(self, *, headers: bool = False) -> Any:
        """Return a `pyarrow.RecordBatch` with the columns of Spark's Kafka source; needs the extra `arrow`."""
        from kavka.wire.records.arrow import to_arrow

        return to_arrow(self.columns(), self.topic, self.partition, headers=headers)

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
            records = decode_as(record_type, prefix, buffer, header)
        except CorruptBatch as error:
            raise self._corrupt(header, error) from error
        if self._is_whole(header):
            return records
        return [r for r in records if self.first_offset <= r.offset < self.next_offset]

    def _decode_run(self, buffer: Buffer, headers: list[BatchHeader]) -> Columns:
        for header in headers:
            self._check(buffer, header)
        start, end = headers[0].position, headers[-1].end
        try:
            columns = decode_columns(buffer, start, end, from_offset=self.first_offset)
        except CorruptBatch as error:
            raise self._corrupt(headers[0], error) from error
        if columns.count and columns.offset_at(columns.count - 1) >= self.next_offset:
            columns = cut_before(columns, self.next_offset)
        return columns

    def _check(self, buffer: Buffer, header: BatchHeader) -> None:
        if self._checks and batch_crc(buffer, header) != header.crc:
            raise self._corrupt(header, "the checksum does not match")

    def _corrupt(self, header: BatchHeader, cause: object) -> KafkaError:
        detail = f"Record batch for partition {self.at} at offset {header.base_offset} is invalid, cause: {cause}"
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, detail)


def _runs(headers: list[BatchHeader]) -> list[tuple[int, int]]:
    """Return index ranges of batches that lie side by side: between them something was left out."""
    runs = []
    first = 0
    for index in range(1, len(headers) + 1):
        if index == len(headers) or headers[index].position != headers[index - 1].end:
            runs.append((first, index))
            first = index
    return runs


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
