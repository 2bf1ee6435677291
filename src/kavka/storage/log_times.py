"""Offsets by time (ListOffsets): the time index leads to a batch, and its records are looked at one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kavka.doors import Disk
from kavka.storage.batch_walk import BatchWalk, WalkedBatch
from kavka.storage.log_read import read_warm
from kavka.storage.partition_directory import Gone
from kavka.storage.segment import Segment
from kavka.wire.records.batch import Record, decode_records


class TimedOffset(NamedTuple):
    """A record's time and place."""

    timestamp: int
    offset: int
    leader_epoch: int


async def first_at_or_after(
    disk: Disk, segments: Sequence[Segment], timestamp: int, log_start_offset: int
) -> TimedOffset | None:
    """Return the first record with a timestamp >= `timestamp` at or after the log's start, None when there is none."""
    for segment in list(segments):
        if segment.max_timestamp < timestamp or segment.next_offset <= log_start_offset:
            continue

        def start_of(may_block: bool, segment: Segment = segment) -> int:
            before = segment.time_index.offset_before(timestamp, may_block=may_block)
            offset = max(before, log_start_offset - segment.base_offset)
            return segment.offset_index.position_before(offset, may_block=may_block)

        found = await _search(
            disk,
            segment,
            start_of,
            lambda batch: batch.header.max_timestamp >= timestamp,
            lambda record: record.timestamp >= timestamp and record.offset >= log_start_offset,
        )
        if found is not None:
            return found
    return None


async def latest(disk: Disk, segments: Sequence[Segment]) -> TimedOffset | None:
    """Return the first record that has the largest timestamp of the log, None when no record has one."""
    segment = max(segments, key=lambda segment: segment.max_timestamp)
    timestamp = segment.max_timestamp
    if timestamp < 0:
        return None

    def start_of(may_block: bool) -> int:
        offset = segment.max_timestamp_offset - segment.base_offset
        return segment.offset_index.position_before(offset, may_block=may_block)

    return await _search(
        disk,
        segment,
        start_of,
        lambda batch: batch.header.max_timestamp == timestamp,
        lambda record: record.timestamp == timestamp,
    )


async def _search(
    disk: Disk,
    segment: Segment,
    start_of: Callable[[bool], int],
    suits: Callable[[WalkedBatch], bool],
    matches: Callable[[Record], bool],
) -> TimedOffset | None:
    """Return the first matching record of the batches that suit, from a position on."""
    if segment.data.is_discarded:
        return None
    segment.data.pin()
    try:
        start = await read_warm(disk, start_of)
        walk = BatchWalk(disk, segment.data, start, segment.size)
        while batches := await walk.next_block():
            for batch in filter(suits, batches):
                block, header = await walk.whole(batch)
                record = _first(matches, decode_records(block, header))
                if record is not None:
                    return TimedOffset(
                        record.timestamp, record.offset, header.partition_leader_epoch
                    )
        return None
    except Gone:
        return None  # an index went with its segment
    finally:
        segment.data.unpin()


def _first(matches: Callable[[Record], bool], records: Iterable[Record]) -> Record | None:
    return next(filter(matches, records), None)
