"""Audit: the records of topics and the rows of a table, offset by offset, counted by hour.

Topic and table are joined on the offset, a window of offsets of one topic partition at a time, so memory is bounded
whatever their size:

    missing   a record of the topic that has no row
    doubled   a row more than one of the same record
    late      a row whose event is older than its record by more than a bound
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.transforms import TimeTransform
from pyiceberg.types import TimestampType, TimestamptzType

from kavka.client.consumer import Consumer
from kavka.ids import TopicPartition
from kavka.lake.errors import LakeError, lake_errors
from kavka.lake.replaced_rows import in_ranges
from kavka.lake.topic_offsets import Bounds, loaded_ends, loaded_ranges

if TYPE_CHECKING:
    from pyiceberg.table import Table

WINDOW = 2_000_000
"""Offsets that are compared at once."""
LATE_AFTER_MS = 3_600_000
_SHOWN = 20
"""Ranges of missing or doubled offsets that are named."""
_POLL_MS = 1000
_EVENT_TIME = "event_time"
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_COUNTS = ("topic", "table", "missing", "doubled", "late")


@dataclass(frozen=True, slots=True)
class HourCount:
    """The counts of records whose timestamps are of one hour."""

    hour_ms: int
    topic: int
    table: int
    missing: int
    doubled: int
    late: int


@dataclass
class Audit:
    """The result of an audit."""

    ranges: Bounds
    """The offsets that were compared."""
    behind: dict[TopicPartition, int]
    """Offsets of the topics that are not loaded yet, where records are among them."""
    hours: dict[int, HourCount] = field(default_factory=dict)
    only_in_table: int = 0
    """Rows of the ranges whose records the topic does not have any more, or shows to this reader."""
    missing_ranges: list[tuple[TopicPartition, int, int]] = field(default_factory=list)
    """The first ranges of missing offsets, the last of each included."""
    doubled_ranges: list[tuple[TopicPartition, int, int]] = field(default_factory=list)

    @property
    def total(self) -> HourCount:
        """Return the sums of all hours."""
        every = list(self.hours.values())
        return HourCount(0, *(sum(getattr(one, name) for one in every) for name in _COUNTS))

    @property
    def is_exact(self) -> bool:
        """Return whether each record has one row."""
        return not (self.total.missing or self.total.doubled)

    def add(self, at: TopicPartition, compared: pa.Table) -> None:
        """Count what `compare` gave. Pure."""
        for row in _by_hour(compared).to_pylist():
            before = self.hours.get(row["hour"], HourCount(row["hour"], 0, 0, 0, 0, 0))
            sums = (getattr(before, name) + row[f"{name}_sum"] for name in _COUNTS)
            self.hours[row["hour"]] = HourCount(row["hour"], *sums)
        for name, ranges in (("missing", self.missing_ranges), ("doubled", self.doubled_ranges)):
            offsets = compared.filter(pc.greater(compared[name], 0))["offset"]
            ranges.extend((at, *run) for run in _runs(offsets.to_pylist()))
            del ranges[_SHOWN:]


def compare(topic: pa.Table, table: pa.Table, late_after_ms: int) -> pa.Table:
    """Join records (offset, timestamp in ms) and rows (offset, event time in ms, may be null) on the offset. Pure.

    Return a row for each record: offset, hour, and one column for each count.
    """
    grouped = table.group_by("offset", use_threads=False)
    rows = grouped.aggregate([("offset", "count"), ("event", "min")])
    joined = topic.join(rows, "offset", join_type="left outer").sort_by("offset")
    count = pc.fill_null(joined["offset_count"], 0)
    zero = pa.scalar(0, pa.int64())
    lag = pc.subtract(joined["timestamp"], joined["event_min"])
    late = pc.fill_null(pc.greater(lag, late_after_ms), False)
    hours = pc.multiply(
        pc.floor(pc.divide(pc.cast(joined["timestamp"], pa.float64()), 3.6e6)), 3.6e6
    )
    return pa.table(
        {
            "offset": joined["offset"],
            "hour": pc.cast(hours, pa.int64()),
            "topic": pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), joined.num_rows)]),
            "table": count,
            "missing": pc.cast(pc.equal(count, 0), pa.int64()),
            "doubled": pc.max_element_wise(pc.subtract(count, 1), zero),
            "late": pc.cast(late, pa.int64()),
        }
    )


def _by_hour(compared: pa.Table) -> pa.Table:
    grouped = compared.group_by("hour", use_threads=False)
    return grouped.aggregate([(name, "sum") for name in _COUNTS])


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Return sorted offsets as ranges, the last of each included."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and offset == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs


async def audit(
    table: Table,
    client: Mapping[str, str],
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
    event_column: str | None = None,
    late_after_ms: int = LATE_AFTER_MS,
    window: int = WINDOW,
) -> Audit:
    """Compare a table with the topics that it was loaded from. Raise LakeError, KafkaError, OSError."""
    with lake_errors():
        ends = loaded_ends(table)
        column = event_column_of(table, event_column)
    async with Consumer({**client, "enable.auto.commit": "false"}) as consumer:
        ranges = await loaded_ranges(consumer, ends, from_ms, to_ms)
        last = await consumer.end_offsets(list(ends))
        behind = {
            at: last[at] - end
            for at, end in ends.items()
            if last[at] > end and await _has_records(consumer, at, (end, last[at]))
        }
        result = Audit(ranges, behind)
        for at, (start, end) in sorted(ranges.items()):
            for first in range(start, end, window):
                bounds = (first, min(first + window, end))
                topic = await _records(consumer, at, bounds)
                with lake_errors():
                    rows = _rows(table, at, bounds, column)
                result.add(at, compare(topic, rows, late_after_ms))
                alone = pc.is_in(rows["offset"], pc.unique(topic["offset"]))
                result.only_in_table += rows.num_rows - (pc.sum(alone).as_py() or 0)
        return result


def event_column_of(table: Table, given: str | None) -> str | None:
    """Return the column of events' times: the given one, that of the partitioning, or `event_time` if it is there."""
    schema = table.schema()
    if given is None:
        for field in table.spec().fields:
            if isinstance(field.transform, TimeTransform):
                name: str | None = schema.find_column_name(field.source_id)
                return name if name in schema.column_names else None
        given = _EVENT_TIME
        if given not in schema.column_names:
            return None
    try:
        kind = schema.find_field(given).field_type
    except ValueError:
        raise LakeError(f"The table has no column {given}.") from None
    if not isinstance(kind, TimestampType | TimestamptzType):
        raise LakeError(f"The column {given} is {kind}, and no timestamp.")
    return given


def _rows(
    table: Table, at: TopicPartition, bounds: tuple[int, int], event_column: str | None
) -> pa.Table:
    """Return offset and event time of the rows of a window."""
    columns = ["offset"] if event_column is None else ["offset", event_column]
    rows = table.scan(in_ranges({at: bounds}), selected_fields=tuple(columns)).to_arrow()
    if event_column is None:
        event = pa.nulls(rows.num_rows, pa.int64())
    else:
        column = rows[event_column].combine_chunks()
        event = pc.cast(pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False), pa.int64())
    return pa.table({"offset": rows["offset"], "event": event})


async def _records(consumer: Consumer, at: TopicPartition, bounds: tuple[int, int]) -> pa.Table:
    """Return offset and timestamp of the records of a window."""
    pieces = [piece async for piece in _read(consumer, at, bounds)]
    schema = pa.schema([("offset", pa.int64()), ("timestamp", pa.int64())])
    return pa.Table.from_batches(pieces, schema=schema)


async def _has_records(consumer: Consumer, at: TopicPartition, bounds: tuple[int, int]) -> bool:
    """Return whether there is more than the ends of transactions."""
    async with aclosing(_read(consumer, at, bounds)) as pieces:
        async for piece in pieces:
            if piece.num_rows:
                return True
    return False


async def _read(
    consumer: Consumer, at: TopicPartition, bounds: tuple[int, int]
) -> AsyncGenerator[pa.RecordBatch, None]:
    start, end = bounds
    consumer.assign([at])
    consumer.seek(at, start)
    while await consumer.position(at) < end:
        for fetched in await consumer.poll(_POLL_MS):
            batch = fetched.to_arrow()
            offsets = batch["offset"]
            piece = pa.record_batch(
                {"offset": offsets, "timestamp": pc.cast(batch["timestamp"], pa.int64())}
            )
            yield piece.filter(pc.and_(pc.less(offsets, end), pc.greater_equal(offsets, start)))
