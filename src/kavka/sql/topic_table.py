"""A topic as a table: which offsets a scan reads, and its rows as record batches of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from kavka.client.schemas.errors import SchemaError
from kavka.client.schemas.framed_columns import RECORD_COLUMNS, column_names
from kavka.client.schemas.json_columns import BadValue, DecodedColumns, decode_json
from kavka.ids import TopicPartition
from kavka.sql.arrow_source import TopicSource
from kavka.sql.bounds import (
    INT64_MAX,
    INT64_MIN,
    Box,
    Interval,
    Predicate,
    columns_of,
    mask,
    narrowed,
)
from kavka.sql.brokers import Brokers, OffsetRange, refused
from kavka.sql.errors import SqlError
from kavka.sql.record_columns import record_arrays, record_fields, text_of
from kavka.sql.scan_state import Scan, ScanState
from kavka.wire.records.columns import Columns

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_ROWS: Final = 1024
_MAX_ROWS: Final = 16_384
"""Rows of a batch: the first is small, because a LIMIT may need no more."""


class ValueFormat(Protocol):
    """Values of a topic as columns."""

    schema: pa.Schema
    """The fields of a value."""

    def decode(self, values: pa.Array, fields: Sequence[str]) -> DecodedColumns:
        """Decode some fields of a column of binary values."""
        ...


class JsonValues:
    """JSON objects of a schema; values without fields are those of an empty schema."""

    def __init__(self, schema: pa.Schema) -> None:
        """Set the fields."""
        self.schema = schema

    def decode(self, values: pa.Array, fields: Sequence[str]) -> DecodedColumns:
        """Decode some fields of a column of JSON objects."""
        import pyarrow as pa

        return decode_json(values, pa.schema([self.schema.field(name) for name in fields]))


class TopicTable:
    """The table of one topic: its place, time and key, then the fields of its values, then value and headers.

    Where a statement needs no column, as count(*), the engine reads the first: it costs nothing.
    """

    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        values: ValueFormat,
        *,
        key_is_text: bool = True,
        value_is_text: bool = True,
        max_disorder_ms: int | None = None,
    ) -> None:
        """Set the metadata of the topic.

        `max_disorder_ms` is how much older than one before it a record may be, None for not known: only with it, or
        where the log sets the timestamps, a scan may end at a time.
        """
        import pyarrow as pa

        self.topic = topic
        self._brokers = brokers
        self._values = values
        self._fields = column_names(values.schema.names)
        self._texts = {"key": key_is_text, "value": value_is_text}
        self._max_disorder_ms = max_disorder_ms
        fields = [
            values.schema.field(field).with_name(name) for name, field in self._fields.items()
        ]
        *first, value, headers = record_fields(key_is_text, value_is_text)
        self.schema = pa.schema([*first, *fields, value, headers])

    @property
    def values_schema(self) -> pa.Schema:
        """The fields of the values."""
        return self._values.schema

    @property
    def has_json_values(self) -> bool:
        """Return whether values are JSON without a frame, or have no fields."""
        return isinstance(self._values, JsonValues)

    def field_of(self, column: str) -> str | None:
        """Return the field of the values that a column has, None for a column of the record."""
        return self._fields.get(column)

    def source(self, state: Callable[[], ScanState]) -> TopicSource:
        """Return what the engine reads; `state` is that of the statement that runs."""

        def open_scan(names: Sequence[str], predicates: list[Predicate]) -> pa.RecordBatchReader:
            import pyarrow as pa

            schema = pa.schema([self.schema.field(name) for name in names])
            batches = self.scan(list(names), predicates, state())
            return pa.RecordBatchReader.from_batches(schema, batches)

        return TopicSource(self.schema, open_scan)

    def scan(
        self, names: list[str], predicates: list[Predicate], state: ScanState
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that satisfy all predicates; what ends the scan is noted in `state`, too."""
        try:
            yield from self._scan(names, predicates, state)
        except GeneratorExit:
            raise
        except BaseException as error:
            state.failure = state.failure or error
            raise

    def _scan(
        self, names: list[str], predicates: list[Predicate], state: ScanState
    ) -> Iterator[pa.RecordBatch]:
        state.scans.append(Scan(self.topic, predicates, self._starts_by_time))
        rows = ScannedRows(self, names, predicates, state)
        if state.feed is not None:
            for topic_partition, columns in state.feed:
                yield from rows.batches(topic_partition, columns)
            return
        ranges = self.ranges(predicates, state)
        state.add_range(sum(one.end - one.start for one in ranges))
        reader = self._brokers.read(ranges, state.on_loss)
        state.add_reader(reader)
        try:
            while not state.is_cancelled and (next_columns := reader.next_columns()) is not None:
                topic_partition, columns = next_columns
                yield from rows.batches(topic_partition, columns)
                state.add_done(columns.next_offset - columns.offset_at(0))
        finally:
            state.forget(reader)
            reader.cancel()

    def ranges(self, predicates: list[Predicate], state: ScanState) -> list[OffsetRange]:
        """Return the offsets that can satisfy the predicates, by partition. Raise SqlError, KafkaError, OSError."""
        partitions = self._brokers.partitions(self.topic)
        if partitions is None:
            raise refused(self.topic)
        boxes = {
            place: box
            for place in sorted(partitions)
            if (box := narrowed(predicates, Box(*place))) is not None
        }
        selected = [
            OffsetRange(
                one.topic_partition,
                max(one.start, boxes[one.topic_partition].offset.low),
                min(one.end, boxes[one.topic_partition].offset.high + 1),
            )
            for one in state.bounds(boxes)
        ]
        times = {place: box.timestamp for place, box in boxes.items()}
        starts = self._starts_by_time(times)
        ends = self._ends_by_time(times)
        return [
            narrow
            for one in selected
            if (narrow := _cut(one, starts.get(one.topic_partition), ends.get(one.topic_partition)))
        ]

    def _starts_by_time(
        self, times: Mapping[TopicPartition, Interval]
    ) -> dict[TopicPartition, int]:
        """Return the first offset of a record that is young enough: all before it are older, whatever their order."""
        timestamps = {
            topic_partition: -(-time.low // 1000)
            for topic_partition, time in times.items()
            if time.low > INT64_MIN
        }
        offsets = self._brokers.offsets(
            {topic_partition: ms for topic_partition, ms in timestamps.items() if ms >= 0}
        )
        return {
            topic_partition: INT64_MAX if offset < 0 else offset
            for topic_partition, offset in offsets.items()
        }

    def _ends_by_time(self, times: Mapping[TopicPartition, Interval]) -> dict[TopicPartition, int]:
        """Return offsets from which on all records are too young, where something is known about their order."""
        limits = {
            topic_partition: time.high // 1000 + 1
            for topic_partition, time in times.items()
            if time.high < INT64_MAX
        }
        if not limits:
            return {}
        disorder_ms = self._max_disorder_ms
        if disorder_ms is None:
            if not self._brokers.has_ordered_timestamps(self.topic):
                return {}
            disorder_ms = 0
        timestamps = {topic_partition: ms + disorder_ms for topic_partition, ms in limits.items()}
        offsets = self._brokers.offsets(
            {topic_partition: ms for topic_partition, ms in timestamps.items() if ms >= 0}
        )
        return {
            topic_partition: offset for topic_partition, offset in offsets.items() if offset >= 0
        }

    def arrays(
        self, topic_partition: TopicPartition, columns: Columns, names: set[str]
    ) -> dict[str, pa.Array]:
        """Return record columns of fetched records, and the raw values where fields of them are asked for."""
        record_columns = {name for name in names if name in RECORD_COLUMNS}
        if any(name in self._fields for name in names):
            record_columns.add("value")
        return record_arrays(columns, *topic_partition, record_columns)

    def decoded(
        self, arrays: dict[str, pa.Array], names: Sequence[str]
    ) -> tuple[dict[str, pa.Array], list[BadValue]]:
        """Return the columns of rows as the table has them, and the values that could not be decoded."""
        columns_by_name: dict[str, pa.Array] = {}
        bad: list[BadValue] = []
        fields = [name for name in names if name in self._fields]
        if fields:
            try:
                decoded = self._values.decode(
                    arrays["value"], [self._fields[one] for one in fields]
                )
            except SchemaError as error:  # the registry's, and not of a value
                raise SqlError(f"{self.topic} cannot be decoded: {error}") from error
            bad += decoded.bad
            columns_by_name = dict(zip(fields, decoded.columns.columns, strict=True))
        for name in names:
            if self._texts.get(name):
                columns_by_name[name], unread = text_of(arrays[name])
                bad += unread
            elif name not in columns_by_name:
                columns_by_name[name] = arrays[name]
        return columns_by_name, bad


class ScannedRows:
    """Fetched records of a scan as batches of the columns that it returns."""

    def __init__(
        self, table: TopicTable, names: list[str], predicates: list[Predicate], state: ScanState
    ) -> None:
        """Set the columns to return, in order."""
        import pyarrow as pa

        self._table = table
        self._names = names
        self._predicates = predicates
        self._state = state
        self._schema = pa.schema([table.schema.field(name) for name in names])
        self._read = {"offset", *names}.union(*map(columns_of, predicates))
        self._size = _FIRST_ROWS
        self._bad = 0

    def batches(
        self, topic_partition: TopicPartition, columns: Columns
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records that satisfy the predicates."""
        arrays = self._filtered(self._table.arrays(topic_partition, columns, self._read))
        count = len(arrays["offset"])
        start = 0
        while start < count:
            rows = {name: array.slice(start, self._size) for name, array in arrays.items()}
            yield self._batch(topic_partition, rows)
            start += self._size
            self._size = _MAX_ROWS

    def _filtered(self, arrays: dict[str, pa.Array]) -> dict[str, pa.Array]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._predicates:
            return arrays
        compared: dict[str, Any] = dict(arrays)
        if "timestamp" in compared:
            compared["timestamp"] = compared["timestamp"].view(pa.int64())
        keep = mask(self._predicates[0], compared)
        for predicate in self._predicates[1:]:
            keep = pc.and_kleene(keep, mask(predicate, compared))
        if pc.all(keep, min_count=0).as_py() and not keep.null_count:
            return arrays
        return {name: array.filter(keep) for name, array in arrays.items()}

    def _batch(self, topic_partition: TopicPartition, rows: dict[str, pa.Array]) -> pa.RecordBatch:
        import pyarrow as pa

        arrays, bad = self._table.decoded(rows, self._names)
        if bad:
            self._bad += len({one.row for one in bad})
            first = min(bad)
            offset = rows["offset"][first.row].as_py()
            self._state.on_bad(topic_partition, offset, first.reason, self._bad)
        return pa.RecordBatch.from_arrays(
            [arrays[name] for name in self._names], schema=self._schema
        )


def _cut(offset_range: OffsetRange, start: int | None, end: int | None) -> OffsetRange | None:
    """Return a range between two more bounds, None when nothing is left."""
    first = offset_range.start if start is None else max(offset_range.start, start)
    last = offset_range.end if end is None else min(offset_range.end, end)
    return OffsetRange(offset_range.topic_partition, first, last) if first < last else None
