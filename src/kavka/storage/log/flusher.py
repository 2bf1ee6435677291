"""Flushing a log: bring what was appended to the medium, then move the recovery point."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence

from kavka.io import File
from kavka.storage.checkpoint.files import rename_temporary, sync_file, write_temporary
from kavka.storage.checkpoint.leader_epochs import LEADER_EPOCHS
from kavka.storage.checkpoint.partition_metadata import PARTITION_METADATA
from kavka.storage.disk.partition_directory import DataFile
from kavka.storage.log.producer_snapshot import encode_snapshot, snapshot_name
from kavka.storage.log.state import LogState
from kavka.storage.segment.segment import Segment


class FlushingLog(LogState):
    """A log that can be flushed."""

    def schedule_flush(self) -> asyncio.Future[None]:
        """Flush soon, together with everybody else who asks before it begins; the future ends with it."""
        if self._waiting_flush is None:
            self._waiting_flush = asyncio.get_running_loop().create_task(self._flush_serialized())
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

    async def _flush_serialized(self) -> None:
        async with self._flush_lock:
            # Who asks from now on may have appended behind what this one waits for.
            self._waiting_flush = None
            await self._flush_written(closes=False)

    async def _flush_and_finish(self) -> None:
        """Flush for the last time, with all that spares the next start recovery. Raise LogDirectoryFailed."""
        async with self._flush_lock:
            await self._flush_written(closes=True)

    async def _flush_written(self, *, closes: bool) -> None:
        await self.directory.writes.reached()
        if self._is_closed:
            return
        self.directory.check()
        try:
            await self._flush_now(closes)
        except OSError as error:
            raise self.directory.fail(error) from error

    async def _flush_now(self, closes: bool) -> None:
        """Sync what lies above the recovery point, then move it. Indexes count only when their segment is closed:
        those of the segment with the recovery point in it are rebuilt by recovery.
        """
        target, truncation_count = self._written_offset, self._truncations
        clock = self.directory.clock
        self.last_flush_ms = clock.tick_ms()
        is_due = target > self.recovery_point or self._has_new_files
        if not is_due and not closes:
            return
        # A segment that ends at the recovery point was flushed while it was active, without its indexes.
        first = max(bisect_left(self._base_offsets, self.recovery_point) - 1, 0)
        for segment in self._segments[first:] if is_due else [self._active]:
            if closes and segment is self._active and segment.size:
                segment.note_largest_timestamp()
                segment.write_indexes()
            await self._sync(*self._unsynced(segment, closes))
        await self._store_facts(with_snapshot=closes)
        if truncation_count == self._truncations:
            self.recovery_point = max(self.recovery_point, target)
        if is_due:
            self.directory.flushes.record(clock.tick_ms() - self.last_flush_ms)

    def _unsynced(self, segment: Segment, closes: bool) -> list[DataFile]:
        """Return the files of a segment that a flush has to sync. Of an empty index its name is all there is."""
        files = [segment.data]
        if segment is not self._active:
            files += segment.files[1:3]
        elif closes:
            indexes = (segment.offset_index, segment.time_index)
            files += [index.storage.data for index in indexes if index.entries]
        if not segment.transaction_index.is_empty:
            files.append(segment.transaction_index.data)
        return files

    async def _store_facts(self, *, with_snapshot: bool) -> None:
        """Store leader epochs that have changed, and the names of new files; at a stop the producers, too."""
        async with self._checkpoint_lock:
            epochs = snapshot = None
            if self.epochs.is_changed:
                self.epochs.note_stored()
                epochs = self.epochs.encode()
            if with_snapshot and self._end_offset > self._snapshot_offset:
                self._snapshot_offset = self._end_offset
                snapshot = encode_snapshot(self.producers.entries())
            if epochs is None and snapshot is None and not self._has_new_files:
                return
            is_new, self._has_new_files, self._is_new = self._is_new, False, False
            await self.directory.disk.run(self._store, epochs, snapshot, is_new)
        if is_new:
            await self.directory.sync_names()

    def _store(self, epochs: bytes | None, snapshot: bytes | None, is_new: bool) -> None:
        """Replace small files and make all names durable; of a new log, also its topic id. It blocks.

        The snapshot of a stop is not synced: one that a host crash damages fails its checksum, and the start replays
        the batches since the snapshot before, of which none has been deleted.
        """
        disk, files = self.directory.disk, self._files
        if epochs is not None:
            write_temporary(disk, files.path_of(LEADER_EPOCHS), epochs)
            rename_temporary(disk, files.path_of(LEADER_EPOCHS))
        if snapshot is not None:
            path = files.path_of(snapshot_name(self._snapshot_offset))
            write_temporary(disk, path, snapshot, is_synced=False)
            rename_temporary(disk, path)
        if is_new and self.topic_id is not None:
            sync_file(disk, files.path_of(PARTITION_METADATA))
        files.sync()

    async def _sync(self, *files: DataFile) -> None:
        """Sync those that are not discarded, one after the other, in one call of the pool. Raise OSError."""
        pinned: list[tuple[DataFile, File]] = []
        try:
            for data in files:
                if not data.is_discarded:
                    pinned.append((data, data.pin()))
            if pinned:
                await self.directory.disk.run(_sync_all, [file for _, file in pinned])
        finally:
            for data, _ in pinned:
                data.unpin()


def _sync_all(files: Sequence[File]) -> None:
    """Sync files. It blocks."""
    for file in files:
        file.sync()


def _mark_retrieved(future: asyncio.Future[None]) -> None:
    """Prevent asyncio's warning about an exception that was not retrieved: the offline directory was reported
    already.
    """
    if not future.cancelled():
        future.exception()
