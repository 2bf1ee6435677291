"""Cutting a log at either end: truncation by a follower; DeleteRecords and retention at the start.

A cut at the end is durable before it returns, and in an order that leaves a log without holes whenever the power goes:
checkpoints first (recovery must not trust what will be written again), then whole segments from the end on, then the
end of the segment that stays. Else old batches could come back behind new ones, and no epoch would tell.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from kavka.storage.disk.partition_directory import DataFile
from kavka.storage.failures import LogDirectoryFailed, OffsetOutOfRange
from kavka.storage.log.loader import reload_producers
from kavka.storage.log.log_read import read_cached
from kavka.storage.log.producer_snapshot import SNAPSHOT_SUFFIX, snapshot_name
from kavka.storage.log.retention import Retention
from kavka.storage.log.writer import AppendingLog
from kavka.storage.segment.segment import DELETED_SUFFIX, Segment

logger = logging.getLogger(__name__)


class TruncatingLog(AppendingLog):
    """A log that can be cut."""

    # Cutting the end

    async def truncate_to(self, offset: int) -> bool:
        """Cut the log at the start of the batch that holds `offset`; False when it ends there already.

        A follower calls this, and nobody appends meanwhile. Recovery point and log start offset follow the end; the
        high watermark is the caller's to lower. Raise LogDirectoryFailed when the disk fails.
        """
        self.directory.check()
        if offset >= self._end_offset:
            # An epoch that began here and wrote nothing may be another one in the leader's log.
            self.epochs.truncate_from_end(self._end_offset)
            await self._write_epochs()
            return False
        async with self._exclusively():
            if offset < self._base_offsets[0]:
                await self._restart_at(offset)
            else:
                await self._truncate_end(offset)
        return True

    async def truncate_fully_and_start_at(self, offset: int) -> None:
        """Delete all records and restart the log at `offset`, where the leader's log starts. Otherwise as
        `truncate_to`.
        """
        async with self._exclusively():
            await self._restart_at(offset)

    @asynccontextmanager
    async def _exclusively(self) -> AsyncIterator[None]:
        """Keep flushes, retention and those who write epochs and snapshots away from a log whose end moves back.

        What the log itself has queued is written before. Raise LogDirectoryFailed when the directory is offline.
        """
        async with self._flush_lock, self._checkpoint_lock:
            self._is_truncating = True
            try:
                await self.directory.writes.reached()
                self.directory.check()
                yield
            except LogDirectoryFailed:
                raise
            except OSError as error:
                raise self.directory.fail(error) from error
            finally:
                self._is_truncating = False

    async def _truncate_end(self, offset: int) -> None:
        disk, before = self.directory.disk, self._end_offset
        kept = max(bisect_left(self._base_offsets, offset), 1)
        active = self._segments[kept - 1]
        self._forget_above(offset, active.base_offset)
        await self.directory.lower_offsets(self.topic_partition, active.base_offset)
        assert before == self._end_offset, "append to a log that is being truncated"
        if active is not self._active:
            going = self._segments[kept:]
            del self._segments[kept:], self._base_offsets[kept:]
            self._end_with(active, active.next_offset)
            await self._retire(going)
            await disk.run(self._files.sync)
        # What the cut looks at is in memory then, and the loop does not wait for it.
        await read_cached(disk, partial(_locate, active, offset))
        active.truncate(offset, self.directory.clock.now_ms())
        self._end_with(active, active.next_offset)
        await self._sync(active.data)
        await self._finish_truncation()
        logger.info(
            "log was truncated log=%s end_offset=%d was=%d", self.path, self._end_offset, before
        )

    def _forget_above(self, offset: int, clean_offset: int) -> None:
        """Lower the recovery point and the cleaner's offset: what is appended there again is neither flushed nor
        clean. The end may become as low as `clean_offset`.
        """
        self.recovery_point = min(self.recovery_point, offset)
        if self.cleaner_offset is not None:
            self.cleaner_offset = min(self.cleaner_offset, clean_offset)

    async def _restart_at(self, offset: int) -> None:
        disk, going = self.directory.disk, list(self._segments)
        self._forget_above(offset, offset)
        await self.directory.lower_offsets(self.topic_partition, offset)
        segment = self._new_segment(offset)
        self._segments[:], self._base_offsets[:] = [segment], [offset]
        self.epochs.clear()
        self.log_start_offset = offset
        self._end_with(segment, offset)
        await self._retire(going)
        await disk.run(self._remove_snapshots)
        segment.data.adopt(await disk.run(partial(disk.open, segment.data.path, create=True)))
        self.recovery_point = offset
        await self._finish_truncation()
        logger.info("log truncated fully log=%s start_offset=%d", self.path, offset)

    def _end_with(self, active: Segment, end_offset: int) -> None:
        """Let the log end with `active` at `end_offset`, and pull all other offsets below that."""
        self._truncations += 1
        self._active = active
        self._written_offset = self._end_offset = end_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.epochs.truncate_from_end(end_offset)

    async def _finish_truncation(self) -> None:
        """Bring producers and epochs back to the new end, and make all names durable."""
        self.producers.clear()
        self._snapshot_offset = await reload_producers(
            self._files, self._segments, self.producers, self._end_offset
        )
        # The first flush of a new log has more to sync than this.
        self._has_new_files = self._is_new
        await self.directory.disk.run(self._files.sync)
        await self._write_changed_epochs()

    def _remove_snapshots(self) -> None:
        names = self._files.disk.list(self._files.path)
        self._files.remove_all(name for name in names if name.endswith(SNAPSHOT_SUFFIX))

    # Files that go

    async def _retire(self, segments: Sequence[Segment]) -> None:
        """Rename the files of segments that left the log, the newest first, and remove them later.

        Readers that have them pinned go on.
        """
        renames = [
            data.retire(DELETED_SUFFIX) for segment in reversed(segments) for data in segment.files
        ]
        await self._rename_and_remove(renames)

    async def _rename_and_remove(self, renames: Sequence[tuple[str, str]]) -> None:
        # One after the other, and none after one that failed: what a stop leaves must not have a hole.
        async with self._names_lock:
            self.directory.check()
            names = await self.directory.disk.run(self._files.rename_all, renames)
        self.directory.remove_later(
            partial(self._files.remove_for_good, names), self.config.file_delete_delay_ms
        )

    # Cutting the start

    def delete_before(self, offset: int, high_watermark: int) -> int:
        """Move the log start offset up to `offset` (DeleteRecords) and return it.

        Whole segments below it go with the next `delete_old_segments`. Raise OffsetOutOfRange above the high watermark.
        """
        if offset > high_watermark:
            raise OffsetOutOfRange(offset, self.log_start_offset, high_watermark)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
        return self.log_start_offset

    def delete_old_segments(self, high_watermark: int) -> int:
        """Remove whole segments below the log start offset, older than retention.ms, or beyond retention.bytes.

        None above the high watermark goes; what stays is never below retention.bytes. Return how many segments went:
        none of a closed log, which is deleted, or has another in its place in a moment.
        """
        self.directory.check()
        if self._is_closed or self._is_truncating or self.is_being_cleaned:
            return 0
        retention = Retention(
            self._segments,
            self.config,
            self.log_start_offset,
            self._end_offset,
            high_watermark,
            self.directory.clock.now_ms(),
        )
        count = retention.count()
        if count:
            try:
                self._delete_oldest(count)
            except OSError as error:
                raise self.directory.fail(error) from error
        return count

    def _delete_oldest(self, count: int) -> None:
        if count == len(self._segments):
            self._roll(self._end_offset)
        going = self._segments[:count]
        del self._segments[:count], self._base_offsets[:count]
        start = self._base_offsets[0]
        if start > self.log_start_offset:
            self.log_start_offset = start
            self.epochs.truncate_from_start(start)
        snapshots = [DataFile(self._files, snapshot_name(segment.base_offset)) for segment in going]
        renames = [
            data.retire(DELETED_SUFFIX)
            for data in (*(data for segment in going for data in segment.files), *snapshots)
        ]
        self.directory.spawn(self._remove_oldest(renames))
        logger.info(
            "old segments were removed log=%s count=%d start_offset=%d", self.path, count, start
        )

    async def _remove_oldest(self, renames: Sequence[tuple[str, str]]) -> None:
        """Remove what retention took, after the snapshot of the segment that is the first now.

        It is the only place that still says what the producers have written before it.
        """
        async with self._checkpoint_lock:
            pass  # a roll writes its snapshot under this lock, and asked for it before
        await self._rename_and_remove(renames)


def _locate(segment: Segment, offset: int, may_block: bool) -> tuple[int, int] | None:
    return segment.locate(offset, may_block=may_block)
