"""Flushing a log: bring what was appended to the medium, then move the recovery point."""

from __future__ import annotations

import asyncio
from bisect import bisect_left

from kavka.storage.checkpoint import sync_file
from kavka.storage.log_state import LogState
from kavka.storage.partition_directory import DataFile
from kavka.storage.partition_metadata import PARTITION_METADATA


class FlushingLog(LogState):
    """A log that can be flushed."""

    def schedule_flush(self) -> asyncio.Future[None]:
        """Flush soon, together with everybody else who asks before it begins; the future ends with it."""
        if self._waiting_flush is None:
            self._waiting_flush = asyncio.get_running_loop().create_task(self._flush_in_turn())
        flushed = asyncio.shield(self._waiting_flush)
        flushed.add_done_callback(_mark_retrieved)
        return flushed

    def pending(self, end_offset: int) -> asyncio.Future[None] | None:
        """Return a future of all below `end_offset` being written, and flushed if settings ask; None if it is."""
        is_written = end_offset <= self._written_offset
        is_flush_due = self._end_offset - self.recovery_point >= self.config.flush_messages
        is_flushed = end_offset <= self.recovery_point or not is_flush_due
        return None if is_written and is_flushed else self.schedule_flush()

    async def flush(self) -> None:
        """Return when everything appended before is on the medium. Raise LogDirectoryFailed when it cannot be."""
        await self.schedule_flush()

    async def _flush_in_turn(self) -> None:
        async with self._flush_lock:
            # Who asks from now on may have appended behind what this one waits for.
            self._waiting_flush = None
            await self.directory.writes.reached()
            if self._is_closed:
                return
            self.directory.check()
            try:
                await self._flush_now()
            except OSError as error:
                raise self.directory.fail(error) from error

    async def _flush_now(self) -> None:
        """Sync what lies above the recovery point, then move it. Indexes count only when their segment is closed:
        those of the segment with the recovery point in it are rebuilt by recovery.
        """
        target, cuts = self._written_offset, self._cuts
        clock = self.directory.clock
        self.last_flush_ms = clock.tick_ms()
        if target <= self.recovery_point and not self._has_new_files:
            return
        disk = self.directory.disk
        # A segment that ends at the recovery point was flushed while it was active, without its indexes.
        first = max(bisect_left(self._base_offsets, self.recovery_point) - 1, 0)
        for segment in self._segments[first:]:
            is_active = segment is self._active
            for data in segment.files[:1] if is_active else segment.files[:3]:
                await self._sync(data)
            if not segment.transaction_index.is_empty:
                await self._sync(segment.transaction_index.data)
        await self._write_epochs()
        if self._has_new_files:
            self._has_new_files = False
            await disk.run(self._sync_names)
        if cuts == self._cuts:
            self.recovery_point = max(self.recovery_point, target)
        self.directory.flushes.record(clock.tick_ms() - self.last_flush_ms)

    def _sync_names(self) -> None:
        """Make the names of new files durable; of a new log, also its topic id and its directory's name. It blocks."""
        disk = self.directory.disk
        self._files.sync()
        if self._is_new:
            if self.topic_id is not None:
                sync_file(disk, self._files.path_of(PARTITION_METADATA))
            disk.sync_directory(self.directory.path)
            self._is_new = False

    async def _sync(self, data: DataFile) -> None:
        if data.is_discarded:
            return
        file = data.pin()
        try:
            await self.directory.disk.run(file.sync)
        finally:
            data.unpin()


def _mark_retrieved(future: asyncio.Future[None]) -> None:
    """Let nobody complain that a failure was not looked at: the directory's going offline was told already."""
    if not future.cancelled():
        future.exception()
