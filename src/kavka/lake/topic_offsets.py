"""Ranges of offsets that a table has loaded and its topic still has, by time where that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from kavka.client.consumer import Consumer
from kavka.ids import TopicPartition
from kavka.lake.errors import LakeError
from kavka.lake.offset_ranges import RECORD_COLUMNS, Ends
from kavka.lake.replaced_rows import require_record_columns
from kavka.lake.sink_state import sinks_of
from kavka.lake.tables import display

if TYPE_CHECKING:
    from pyiceberg.table import Table

Bounds = dict[TopicPartition, tuple[int, int]]
"""Offsets from the first up to and without the second."""


def loaded_ends(table: Table) -> dict[TopicPartition, int]:
    """Return how far a table was loaded: what its sinks say, or else its rows. Raise LakeError when it is empty."""
    require_record_columns(table)
    ends: dict[TopicPartition, int] = {}
    for state in sinks_of(table.properties).values():
        for at, end in state.ends.items():
            ends[at] = max(end, ends.get(at, 0))
    if not ends:
        ends = _ends_of_rows(table)
    if not ends:
        raise LakeError(f"The table {display(table.name())} has no rows of a topic yet.")
    return ends


def _ends_of_rows(table: Table) -> dict[TopicPartition, int]:
    ends: dict[TopicPartition, int] = {}
    for rows in table.scan(selected_fields=RECORD_COLUMNS).to_arrow_batch_reader():
        for topic in pc.unique(rows["topic"]).to_pylist():
            own = rows.filter(pc.equal(rows["topic"], topic))
            for partition in pc.unique(own["partition"]).to_pylist():
                offsets = own.filter(pc.equal(own["partition"], partition))["offset"]
                at = TopicPartition(topic, partition)
                ends[at] = max(pc.max(offsets).as_py() + 1, ends.get(at, 0))
    return ends


async def loaded_ranges(
    consumer: Consumer, ends: Ends, from_ms: int | None, to_ms: int | None
) -> Bounds:
    """Return the ranges that are in the topics still, were loaded, and are of a time by the records' timestamps.

    The bounds are those of the broker's index of time: the first record that is not older than `from_ms`, and the first
    that is not older than `to_ms`, which is not in the range. Raise KafkaError, OSError.
    """
    bounds: Bounds = {}
    first = await consumer.beginning_offsets(list(ends))
    last = await consumer.end_offsets(list(ends))
    starts = await _at_time(consumer, ends, from_ms, last)
    stops = await _at_time(consumer, ends, to_ms, last)
    for at, end in ends.items():
        start = first[at] if from_ms is None else max(first[at], starts[at])
        stop = min(end, last[at]) if to_ms is None else min(end, stops[at])
        if start < stop:
            bounds[at] = (start, stop)
    return bounds


async def _at_time(
    consumer: Consumer, ends: Ends, time_ms: int | None, last: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    if time_ms is None:
        return {}
    results = await consumer.offsets_for_times(dict.fromkeys(ends, time_ms))
    offsets = {}
    for at in ends:
        result = results[at]
        offsets[at] = last[at] if result is None else result.offset
    return offsets
