"""Offsets by time (ListOffsets): the time index leads to a batch, and its records are checked by the kernel.

What may take more than a moment, a compressed batch or a large one, is checked in the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kavka.io import Buffer, Disk
from kavka.storage.disk.partition_directory import SegmentDeleted
from kavka.storage.log.log_read import read_cached
from kavka.storage.segment.batch_walk import BatchWalk, WalkedBatch
from kavka.storage.segment.segment import Segment
from kavka.wire.records import kernel
from kavka.wire.records.body import body_of
from kavka.wire.records.header import BatchHeader, TimestampType

_LARGE_BATCH: Final = 256 * 1024
_ANY: Final = -(2**63)


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
            timestamp,
            log_start_offset,
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
        timestamp,
        segment.base_offset,
    )


async def _search(
    disk: Disk,
    segment: Segment,
    start_of: Callable[[bool], int],
    suits: Callable[[WalkedBatch], bool],
    timestamp: int,
    from_offset: int,
) -> TimedOffset | None:
    """Return the first record at or after a timestamp and an offset of the batches that suit, from a position on."""
    if segment.data.is_discarded:
        return None
    segment.data.pin()
    try:
        start = await read_cached(disk, start_of)
        walk = BatchWalk(disk, segment.data, start, segment.size)
        while batches := await walk.next_block():
            for batch in filter(suits, batches):
                block, header = await walk.is_whole(batch)
                if header.compression or header.size > _LARGE_BATCH:
                    found = await disk.run(_first_since, block, header, timestamp, from_offset)
                else:
                    found = _first_since(block, header, timestamp, from_offset)
                if found is not None:
                    return TimedOffset(*found, header.partition_leader_epoch)
        return None
    except SegmentDeleted:
        return None  # an index went with its segment
    finally:
        segment.data.unpin()


def _first_since(
    block: Buffer, header: BatchHeader, timestamp: int, from_offset: int
) -> tuple[int, int] | None:
    """Return timestamp and offset of the first record of a batch at or after both. Raise CorruptBatch."""
    body, start, end = body_of(block, header)
    has_one_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    found = kernel.first_since(
        body,
        start,
        end,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        _ANY if has_one_time else timestamp,
        from_offset,
    )
    return (header.max_timestamp, found[1]) if has_one_time and found is not None else found
