"""Ranges of offsets by topic partition: what a batch has, what a reload replaces. Pure; rows are Arrow data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kavka.core.topic_partitions import nest_by_topic
from kavka.ids import TopicPartition
from kavka.lake.errors import LakeError

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_COLUMNS = ("topic", "partition", "offset")
"""The columns that say which record a row comes from."""
Ends = Mapping[TopicPartition, int]
"""One past the last offset, for each topic partition."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from `start` up to and without `end`, and the number of rows that have them."""

    start: int
    end: int
    rows: int

    def merged(self, other: OffsetRange) -> OffsetRange:
        """Return the range of both."""
        return OffsetRange(
            min(self.start, other.start), max(self.end, other.end), self.rows + other.rows
        )


Ranges = dict[TopicPartition, OffsetRange]


def merge(into: Ranges, more: Mapping[TopicPartition, OffsetRange]) -> None:
    """Add ranges to others."""
    for at, added in more.items():
        into[at] = added.merged(into[at]) if at in into else added


def ranges_of(rows: pa.RecordBatch | pa.Table) -> Ranges:
    """Return the ranges of rows; nothing where they do not have the three columns."""
    import pyarrow as pa

    if not all(name in rows.schema.names for name in RECORD_COLUMNS):
        return {}
    picked = pa.table([rows.column(name) for name in RECORD_COLUMNS], names=list(RECORD_COLUMNS))
    grouped = picked.group_by(list(RECORD_COLUMNS[:2]), use_threads=False).aggregate(
        [("offset", "min"), ("offset", "max"), ("offset", "count")]
    )
    ranges: Ranges = {}
    for row in grouped.to_pylist():
        if row["offset_min"] is not None and row["topic"] is not None:
            at = TopicPartition(row["topic"], row["partition"])
            ranges[at] = OffsetRange(row["offset_min"], row["offset_max"] + 1, row["offset_count"])
    return ranges


def ends_of(ranges: Mapping[TopicPartition, OffsetRange]) -> dict[TopicPartition, int]:
    """Return where ranges end."""
    return {at: found.end for at, found in ranges.items()}


def ends_to_json(ends: Ends) -> dict[str, dict[str, int]]:
    """Return ends as Spark writes offsets: `{"topic": {"0": 12}}`."""
    return nest_by_topic((at, end) for at, end in ends.items())


def ends_from_json(given: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """Read what `ends_to_json` gave."""
    return {
        TopicPartition(topic, int(partition)): int(end)
        for topic, partitions in given.items()
        for partition, end in partitions.items()
    }


def ranges_to_json(ranges: Mapping[TopicPartition, OffsetRange]) -> str:
    """Return ranges as `{"topic": {"0": [start, end, rows]}}`."""
    nested = nest_by_topic((at, [one.start, one.end, one.rows]) for at, one in ranges.items())
    return json.dumps(nested, separators=(",", ":"))


def parse_replaced(text: str) -> dict[TopicPartition, tuple[int, int]]:
    """Read the option replaceOffsets: `{"topic": {"0": [start, end]}}`. Raise LakeError."""
    form = 'The option replaceOffsets must be JSON such as {"topic": {"0": [start, end]}}, end excluded'
    try:
        given = json.loads(text)
        parsed = {
            TopicPartition(topic, int(partition)): (int(start), int(end))
            for topic, partitions in given.items()
            for partition, (start, end) in partitions.items()
        }
    except (ValueError, TypeError, AttributeError):
        raise LakeError(f"{form}, not {text!r}.") from None
    if not parsed or any(start < 0 or end < start for start, end in parsed.values()):
        raise LakeError(f"{form}, not {text!r}.")
    return parsed


def check_inside(
    ranges: Mapping[TopicPartition, OffsetRange],
    replaced: Mapping[TopicPartition, tuple[int, int]],
) -> None:
    """Raise LakeError when rows come from offsets that are not replaced: those would be in the table twice."""
    for at, offsets in ranges.items():
        start, end = replaced.get(at, (0, 0))
        if offsets.start < start or offsets.end > end:
            raise LakeError(
                f"The rows have offsets {offsets.start} to {offsets.end - 1} of {at}, and replaceOffsets has "
                f"{start} to {end - 1}: rows outside would be doubled. Read the same range."
            )
