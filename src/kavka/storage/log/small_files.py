"""The small files of one log: leader epochs, producer snapshots, the topic's id, and the names of all files.

Flushes write them before the recovery point moves: above it, recovery learns epochs and producers from the batches.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from struct import pack

from kavka.core.producer_state import ProducerEntry
from kavka.ids import TopicId
from kavka.io import File
from kavka.storage.checkpoint.files import (
    open_temporary,
    read_file,
    rename_temporary,
    sync_file,
    write_temporary,
)
from kavka.storage.checkpoint.leader_epochs import LEADER_EPOCHS
from kavka.storage.checkpoint.partition_metadata import (
    PARTITION_METADATA,
    encode_partition_metadata,
)
from kavka.storage.directory.sync_group import SyncGroup
from kavka.storage.failures import CorruptFile
from kavka.storage.log.context import LogContext
from kavka.storage.log.loader import LoadedLog, reload_producers
from kavka.storage.log.locks import LogLocks
from kavka.storage.log.producer_snapshot import (
    SNAPSHOT_SUFFIX,
    decode_snapshot,
    encode_snapshot,
    snapshot_name,
)
from kavka.storage.log.segments import LogSegments

logger = logging.getLogger(__name__)


class SmallFiles:
    """Owns the leader epochs and the producers' state, and what of them is on the disk."""

    def __init__(
        self, context: LogContext, segments: LogSegments, locks: LogLocks, loaded: LoadedLog
    ) -> None:
        """Take over what was loaded."""
        self._context = context
        self._segments = segments
        self._locks = locks
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.topic_id: TopicId | None = loaded.topic_id
        self.has_new_files = loaded.has_new_files
        """True if the directory must be synced before its content counts as flushed."""
        self._is_new = loaded.is_new
        self._snapshot_offset = loaded.snapshot_offset

    async def learn_topic_id(self, topic_id: TopicId) -> None:
        """Store the topic's id where there is none yet. Raise LogDirectoryFailed."""
        if self.topic_id is None:
            path = self._context.files.path_of(PARTITION_METADATA)
            await self._context.directory.replace_file(path, encode_partition_metadata(topic_id))
            self.topic_id = topic_id

    # A flush

    async def store(self) -> None:
        """Store leader epochs that have changed, and the names of new files."""
        directory = self._context.directory
        async with self._locks.checkpoints:
            epochs = self._changed_epochs()
            if epochs is None and not self.has_new_files:
                return
            is_new = self._take_is_new()
            await directory.disk.run(self._store, epochs, is_new)
        if is_new:
            await directory.sync_names()

    def _store(self, epochs: bytes | None, is_new: bool) -> None:
        """Replace small files and make all names durable; of a new log, also its topic id. It blocks."""
        disk, files = self._context.directory.disk, self._context.files
        if epochs is not None:
            write_temporary(disk, files.path_of(LEADER_EPOCHS), epochs)
            rename_temporary(disk, files.path_of(LEADER_EPOCHS))
        if is_new and self.topic_id is not None:
            sync_file(disk, files.path_of(PARTITION_METADATA))
        files.sync()

    def _changed_epochs(self) -> bytes | None:
        if not self.epochs.is_changed:
            return None
        self.epochs.note_stored()
        return self.epochs.encode()

    def _take_is_new(self) -> bool:
        is_new, self.has_new_files, self._is_new = self._is_new, False, False
        return is_new

    # A stop

    async def finish(self, data: Sequence[File], group: SyncGroup) -> None:
        """Store all that a clean start reads; sync it, and the log's own open files `data`, with the group.

        The snapshot of the producers is not synced: one that a host crash damages fails its checksum, and the start
        replays the batches since the snapshot before, of which none has been deleted. Raise OSError.
        """
        directory, path = self._context.directory, self._context.files.path
        async with self._locks.checkpoints:
            replaced, snapshot = list[str](), None
            epochs = self._changed_epochs()
            if epochs is not None:
                replaced.append(LEADER_EPOCHS)
            end_offset = self._segments.end_offset
            if end_offset > self._snapshot_offset:
                self._snapshot_offset = end_offset
                snapshot = encode_snapshot(self.producers.entries())
                replaced.append(snapshot_name(end_offset))
            has_new_files, is_new = self.has_new_files, self._take_is_new()
            written = await directory.disk.run(self._write_temporaries, epochs, snapshot, is_new)
            try:
                await group.sync([*data, *written])
            finally:
                for file in written:
                    file.close()
            if not replaced and not has_new_files:
                return
            await directory.disk.run(self._rename_temporaries, replaced)
            await group.sync(directories=[path])
            if is_new:
                # Under the lock: a snapshot of a roll that still waits for it must find the log closed.
                await directory.sync_names()

    def _write_temporaries(
        self, epochs: bytes | None, snapshot: bytes | None, is_new: bool
    ) -> list[File]:
        """Write small files beside their places; return those that must be synced, of a new log also its topic id."""
        disk, files = self._context.directory.disk, self._context.files
        written = list[File]()
        try:
            if snapshot is not None:
                path = files.path_of(snapshot_name(self._snapshot_offset))
                write_temporary(disk, path, snapshot, is_synced=False)
            if is_new and self.topic_id is not None:
                written.append(disk.open(files.path_of(PARTITION_METADATA)))
            if epochs is not None:
                written.append(open_temporary(disk, files.path_of(LEADER_EPOCHS), epochs))
        except BaseException:
            for file in written:
                file.close()
            raise
        return written

    def _rename_temporaries(self, names: Sequence[str]) -> None:
        for name in names:
            rename_temporary(self._context.directory.disk, self._context.files.path_of(name))

    # Leader epochs

    async def write_epochs(self) -> None:
        """Replace the leader epochs' checkpoint if they have changed. Raise LogDirectoryFailed."""
        async with self._locks.checkpoints:
            if not self._context.is_closed:
                await self._write_changed_epochs()

    async def _write_changed_epochs(self) -> None:
        if self.epochs.is_changed:
            self.epochs.note_stored()
            path = self._context.files.path_of(LEADER_EPOCHS)
            await self._context.directory.replace_file(path, self.epochs.encode())

    # Producers

    async def write_snapshot(self, offset: int, snapshot: bytes, truncation_count: int) -> None:
        """Write the snapshot of a roll at `offset`, unless the log was truncated or begins behind it by now."""
        segments = self._segments
        async with self._locks.checkpoints:
            is_valid = (
                truncation_count == segments.truncation_count and offset >= segments.first_offset
            )
            if is_valid and not self._context.is_closed:
                path = self._context.files.path_of(snapshot_name(offset))
                await self._context.directory.replace_file(path, snapshot)
                self._snapshot_offset = max(self._snapshot_offset, offset)

    async def remove_snapshots(self) -> None:
        """Remove all snapshots. Raise OSError."""
        await self._context.directory.disk.run(self._remove_snapshots)

    def _remove_snapshots(self) -> None:
        files = self._context.files
        names = files.disk.list(files.path)
        files.remove_all(name for name in names if name.endswith(SNAPSHOT_SUFFIX))

    async def follow_truncation(self) -> None:
        """Truncate producers and epochs to the end of a truncated log, and make all names durable. Raise OSError.

        To be called under the exclusive lock.
        """
        segments, files = self._segments, self._context.files
        self.producers.clear()
        self._snapshot_offset = await reload_producers(
            files, segments.all, self.producers, segments.end_offset
        )
        # The first flush of a new log has more to sync than this.
        self.has_new_files = self._is_new
        await self._context.directory.disk.run(files.sync)
        await self._write_changed_epochs()

    async def last_of_producers(self, end_offset: int) -> tuple[bytes, dict[int, int]]:
        """Return the last offsets of producers' last batches (int64, ascending), and the epochs of those without one.

        Those of the log and those of the segments below `end_offset`: what comes after may be cut, and recovery then
        finds no other. The latter are known from the snapshot that was made there; one that is lost is done without.
        """
        entries = self.producers.entries()
        known = {entry.producer_id for entry in entries}
        earlier = await self._snapshot_at(end_offset)
        entries = [*(entry for entry in earlier if entry.producer_id in known), *entries]
        offsets = sorted({entry.last_offset for entry in entries if entry.last_offset >= 0})
        epochs = {e.producer_id: e.producer_epoch for e in entries if e.last_offset < 0}
        return pack(f"={len(offsets)}q", *offsets), epochs

    async def _snapshot_at(self, offset: int) -> list[ProducerEntry]:
        disk = self._context.directory.disk
        path = self._context.files.path_of(snapshot_name(offset))
        content = await disk.run(read_file, disk, path)
        try:
            return [] if content is None else list(decode_snapshot(content))
        except CorruptFile as error:
            logger.warning("ignored a producer snapshot reason=%s", error)
            return []
