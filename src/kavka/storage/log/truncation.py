"""Truncation of a log, by a follower.

A truncation is durable before it returns, and in an order that leaves a log without gaps after any power failure:
checkpoints first (recovery must not trust offsets that will be written again), then whole segments from the end on,
then the end of the segment that stays. Else old batches could return behind new ones, and no epoch would show it.
"""

from __future__ import annotations

import logging
from functools import partial

from kavka.storage.log.cleaning_state import CleaningState
from kavka.storage.log.context import LogContext
from kavka.storage.log.flusher import LogFlusher
from kavka.storage.log.locks import LogLocks
from kavka.storage.log.log_read import read_cached
from kavka.storage.log.removal import SegmentRemoval
from kavka.storage.log.segments import LogSegments
from kavka.storage.log.small_files import SmallFiles
from kavka.storage.segment.segment import Segment

logger = logging.getLogger(__name__)


class LogTruncation:
    """Moves the end of a log back, with every offset that must not lie above it."""

    def __init__(
        self,
        context: LogContext,
        segments: LogSegments,
        small_files: SmallFiles,
        flusher: LogFlusher,
        cleaning: CleaningState,
        removal: SegmentRemoval,
        locks: LogLocks,
    ) -> None:
        """Truncate `segments`; the other parts follow."""
        self._context = context
        self._segments = segments
        self._small_files = small_files
        self._flusher = flusher
        self._cleaning = cleaning
        self._removal = removal
        self._locks = locks

    async def truncate_to(self, offset: int) -> bool:
        """Truncate the log at the start of the batch that contains `offset`; False when it ends there already.

        A follower calls this, and there are no appends meanwhile. Recovery point and log start offset follow the end;
        the high watermark is the caller's to lower. Raise LogDirectoryFailed when the disk fails.
        """
        self._context.directory.check()
        if offset >= self._segments.end_offset:
            # An epoch that began here and wrote nothing may be another one in the leader's log.
            self._small_files.epochs.truncate_from_end(self._segments.end_offset)
            await self._small_files.write_epochs()
            return False
        async with self._locks.exclusive():
            if offset < self._segments.first_offset:
                await self._restart_at(offset)
            else:
                await self._truncate_end(offset)
        return True

    async def restart_at(self, offset: int) -> None:
        """Delete all records and restart the log at `offset`, the leader's log start. Otherwise as `truncate_to`."""
        async with self._locks.exclusive():
            await self._restart_at(offset)

    async def _truncate_end(self, offset: int) -> None:
        segments, disk = self._segments, self._context.directory.disk
        before = segments.end_offset
        kept = max(segments.count_before(offset), 1)
        active = segments.all[kept - 1]
        self._forget_above(offset, active.base_offset)
        await self._context.directory.lower_offsets(
            self._context.topic_partition, active.base_offset
        )
        assert before == segments.end_offset, "append to a log that is being truncated"
        if active is not segments.active:
            going = segments.remove_newest(kept)
            self._end_with(active, active.next_offset)
            await self._removal.retire(going)
            await disk.run(self._context.files.sync)
        # What the cut checks is in memory then, and the loop does not wait for it.
        await read_cached(disk, partial(_locate, active, offset))
        active.truncate(offset, self._context.directory.clock.now_ms())
        self._end_with(active, active.next_offset)
        await self._flusher.sync(active.data)
        await self._small_files.follow_truncation()
        logger.info(
            "log was truncated log=%s end_offset=%d was=%d",
            self._context.files.path,
            self._segments.end_offset,
            before,
        )

    def _forget_above(self, offset: int, clean_offset: int) -> None:
        """Lower the recovery point and the cleaner's offset, before appends below them.

        The end may become as low as `clean_offset`.
        """
        self._flusher.lower(offset)
        self._cleaning.lower(clean_offset)

    async def _restart_at(self, offset: int) -> None:
        segments, disk = self._segments, self._context.directory.disk
        going = list(segments.all)
        self._forget_above(offset, offset)
        await self._context.directory.lower_offsets(self._context.topic_partition, offset)
        segment = segments.new(offset)
        segments.restart_with(segment)
        self._small_files.epochs.clear()
        await self._removal.retire(going)
        await self._small_files.remove_snapshots()
        segment.data.adopt(await disk.run(partial(disk.open, segment.data.path, create=True)))
        self._flusher.recovery_point = offset
        await self._small_files.follow_truncation()
        logger.info("log truncated fully log=%s start_offset=%d", self._context.files.path, offset)

    def _end_with(self, active: Segment, end_offset: int) -> None:
        """Truncate the log to end with `active` at `end_offset`, and lower all other offsets to that."""
        self._segments.end_with(active, end_offset)
        self._flusher.lower(end_offset)
        self._small_files.epochs.truncate_from_end(end_offset)


def _locate(segment: Segment, offset: int, may_block: bool) -> tuple[int, int] | None:
    return segment.locate(offset, may_block=may_block)
