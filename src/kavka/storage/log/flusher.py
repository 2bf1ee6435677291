"""Flushing a log: bring what was appended to the medium, then move the recovery point."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from kavka.io import File
from kavka.storage.directory.sync_group import SyncGroup
from kavka.storage.disk.partition_directory import DataFile
from kavka.storage.log.context import LogContext
from kavka.storage.log.locks import LogLocks
from kavka.storage.log.segments import LogSegments
from kavka.storage.log.small_files import SmallFiles
from kavka.storage.segment.segment import Segment


class LogFlusher:
    """Owns the recovery point: everything below it is on the medium."""

    def __init__(
        self,
        context: LogContext,
        segments: LogSegments,
        small_files: SmallFiles,
        locks: LogLocks,
        recovery_point: int,
    ) -> None:
        """Begin at the recovery point of the loaded log."""
        self._context = context
        self._segments = segments
        self._small_files = small_files
        self._locks = locks
        self.recovery_point = recovery_point
        self.last_flush_ms = context.directory.clock.tick_ms()
        self._waiting: asyncio.Task[None] | None = None

    @property
    def is_waiting(self) -> bool:
        """Return whether a flush was asked for that has not begun."""
        return self._waiting is not None

    def schedule(self) -> asyncio.Future[None]:
        """Flush soon, once for all calls before it begins; the future ends with it."""
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_task(self._flush_serialized())
        flushed = asyncio.shield(self._waiting)
        flushed.add_done_callback(_mark_retrieved)
        return flushed

    def pending(self, end_offset: int) -> asyncio.Future[None] | None:
        """Return a future of all below `end_offset` being written, and flushed if settings ask; None if it is."""
        segments = self._segments
        unflushed = segments.end_offset - self.recovery_point
        is_written = end_offset <= segments.written_offset
        is_flush_due = unflushed >= self._context.config.flush_messages
        is_flushed = end_offset <= self.recovery_point or not is_flush_due
        return None if is_written and is_flushed else self.schedule()

    async def finish(self, group: SyncGroup) -> None:
        """Flush for the last time, with all that spares the next start recovery. Raise LogDirectoryFailed."""
        async with self._locks.flush:
            await self._flush_written(group)

    def lower(self, offset: int) -> None:
        """Forget that something above `offset` was flushed."""
        self.recovery_point = min(self.recovery_point, offset)

    async def _flush_serialized(self) -> None:
        async with self._locks.flush:
            # Calls from now on may have appended behind what this one waits for.
            self._waiting = None
            await self._flush_written()

    async def _flush_written(self, closing: SyncGroup | None = None) -> None:
        directory = self._context.directory
        await directory.writes.reached()
        if self._context.is_closed:
            return
        directory.check()
        try:
            await self._flush_now(closing)
        except OSError as error:
            raise directory.fail(error) from error

    async def _flush_now(self, closing: SyncGroup | None) -> None:
        """Sync the log above the recovery point, then move it; a log that closes does so with its group.

        Indexes count only when their segment is closed: recovery rebuilds those of the recovery point's segment.
        """
        segments, directory = self._segments, self._context.directory
        target, truncation_count = segments.written_offset, segments.truncation_count
        self.last_flush_ms = directory.clock.tick_ms()
        is_due = target > self.recovery_point or self._small_files.has_new_files
        if not is_due and closing is None:
            return
        # A segment that ends at the recovery point was flushed while it was active, without its indexes.
        first = max(segments.count_before(self.recovery_point) - 1, 0)
        unsynced = segments.all[first:] if is_due else [segments.active]
        if closing is None:
            for segment in unsynced:
                await self.sync(*self._unsynced(segment, closes=False))
            await self._small_files.store()
        else:
            await self._finish_now(unsynced, closing)
        if truncation_count == segments.truncation_count:
            self.recovery_point = max(self.recovery_point, target)
        if is_due:
            directory.flushes.record(directory.clock.tick_ms() - self.last_flush_ms)

    async def _finish_now(self, unsynced: Sequence[Segment], group: SyncGroup) -> None:
        """Write what a closed log has besides its records, and sync all of it with the group. Raise OSError."""
        active = self._segments.active
        if active.size:
            active.note_largest_timestamp()
            active.write_indexes()
        with _pinned(
            data for each in unsynced for data in self._unsynced(each, closes=True)
        ) as files:
            await self._small_files.finish(files, group)

    def _unsynced(self, segment: Segment, closes: bool) -> list[DataFile]:
        """Return the files of a segment that a flush has to sync. Of an empty index its name is all there is."""
        files = [segment.data]
        if segment is not self._segments.active:
            files += segment.files[1:3]
        elif closes:
            indexes = (segment.offset_index, segment.time_index)
            files += [index.storage.data for index in indexes if index.entries]
        if not segment.transaction_index.is_empty:
            files.append(segment.transaction_index.data)
        return files

    async def sync(self, *files: DataFile) -> None:
        """Sync those that are not discarded, one after the other, in one call of the pool. Raise OSError."""
        with _pinned(files) as pinned:
            if pinned:
                await self._context.directory.disk.run(_sync_all, pinned)


@contextmanager
def _pinned(files: Iterable[DataFile]) -> Iterator[list[File]]:
    """Keep those that are not discarded open. Raise OSError."""
    pinned: list[tuple[DataFile, File]] = []
    try:
        for data in files:
            if not data.is_discarded:
                pinned.append((data, data.pin()))
        yield [file for _, file in pinned]
    finally:
        for data, _ in pinned:
            data.unpin()


def _sync_all(files: Sequence[File]) -> None:
    """Sync files. It blocks."""
    for file in files:
        file.sync()


def _mark_retrieved(future: asyncio.Future[None]) -> None:
    """Prevent asyncio's warning about an unretrieved exception: the offline directory was reported already."""
    if not future.cancelled():
        future.exception()
