"""A partition's log, from opening to closing: a facade over its parts.

    segments             the list, the active one, log start offset and end of the log
    small_files          leader epochs, producers and their snapshots, the topic's id
    flusher              the recovery point
    writer               append and roll; follower_append over it
    reader               ranges of files, offsets by time, aborted transactions
    truncation           moves the end back; log_start moves the start up (DeleteRecords, retention)
    segment_replacement  puts cleaned segments in place

All methods run on the loop; those that need the medium are coroutines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kavka.ids import TopicId, TopicPartition
from kavka.io import Buffer
from kavka.storage.checkpoint.leader_epochs import EpochStart
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.directory.sync_group import SyncGroup
from kavka.storage.disk.partition_directory import PartitionDirectory
from kavka.storage.failures import CorruptFile
from kavka.storage.log.cleaning_state import CleaningState
from kavka.storage.log.context import LogContext
from kavka.storage.log.flusher import LogFlusher
from kavka.storage.log.follower_append import FollowerAppend
from kavka.storage.log.loader import LoadedLog, LoadRequest, load_log, load_logs, make_log
from kavka.storage.log.locks import LogLocks
from kavka.storage.log.log_read import LogRange
from kavka.storage.log.log_start import LogStart
from kavka.storage.log.reader import LogReader
from kavka.storage.log.removal import SegmentRemoval
from kavka.storage.log.segment_replacement import SegmentReplacement
from kavka.storage.log.segments import LogSegments
from kavka.storage.log.small_files import SmallFiles
from kavka.storage.log.times import TimedOffset
from kavka.storage.log.truncation import LogTruncation
from kavka.storage.log.writer import Appended, LogWriter
from kavka.storage.log_config import LogConfig
from kavka.storage.segment.segment import Segment
from kavka.storage.segment.transaction_index import AbortedTransaction

__all__ = ["Appended", "Log"]


class FoundLog(NamedTuple):
    """A log that a start has found, with what the checkpoints of its directory say."""

    topic_partition: TopicPartition
    config: LogConfig
    recovery_point: int
    log_start_offset: int
    cleaner_offset: int | None


class Log:
    """An open log. Made by `Log.open`."""

    def __init__(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        config: LogConfig,
        files: PartitionDirectory,
        loaded: LoadedLog,
    ) -> None:
        """Build the parts over what was loaded."""
        self.directory = directory
        self.recovery = loaded.recovery
        self._context = context = LogContext(directory, topic_partition, config, files)
        self._segments = segments = LogSegments(
            context, loaded.segments, loaded.log_start_offset, loaded.end_offset
        )
        self._locks = locks = LogLocks(directory)
        self._small_files = small_files = SmallFiles(context, segments, locks, loaded)
        self._flusher = flusher = LogFlusher(
            context, segments, small_files, locks, loaded.recovery_point
        )
        self._writer = writer = LogWriter(context, segments, small_files, flusher)
        self._reader = LogReader(context, segments)
        self._cleaning = cleaning = CleaningState(loaded.cleaner_offset)
        removal = SegmentRemoval(context, locks)
        self._truncation = LogTruncation(
            context, segments, small_files, flusher, cleaning, removal, locks
        )
        self._start = LogStart(context, segments, small_files, writer, cleaning, removal, locks)
        self._follower = FollowerAppend(context, segments, writer, self._truncation)
        self.replacement = SegmentReplacement(context, segments, locks)
        """For the cleaner: puts cleaned segments in the place of others."""
        self.producers = small_files.producers
        self.epochs = small_files.epochs
        # The two methods that every request calls cost no second call.
        self.append = writer.append
        self.read = self._reader.read
        self._is_settled = loaded.is_settled
        self._found_end_offset, self._found_active = loaded.end_offset, segments.active
        if loaded.recovery.checked_segments:
            directory.write_indexes_soon(segments.active)

    @classmethod
    async def open(  # noqa: PLR0913  # what the directory's checkpoints say of the log
        cls,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        topic_id: TopicId | None = None,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        is_clean: bool = False,
        is_there: bool = False,
        name: str | None = None,
        cleaner_offset: int | None = None,
    ) -> Log:
        """Open or create the log, after recovering it when it was not closed cleanly (see `log.recovery`).

        The offsets are those of the directory's checkpoints; with `is_there` the log is not new, which is not checked.
        Raise OSError when the disk fails, CorruptFile when the directory holds what may not be truncated
        (messages of the legacy formats).
        """
        path = f"{directory.path}/{name or topic_partition}"
        files = PartitionDirectory(directory.disk, path, directory.open_files)
        request = LoadRequest(
            config,
            directory.clock.now_ms(),
            recovery_point,
            log_start_offset,
            is_clean,
            topic_id,
            cleaner_offset,
        )
        loaded = None if is_there else await make_log(files, request, directory.creation)
        if loaded is None:
            loaded = await load_log(files, request)
        # What loading changed in the leader epochs is written with the next change or flush: an empty log forgets its
        # epoch here and gets it again from its leader, which is no reason to write a file of every partition twice.
        return cls(directory, topic_partition, config, files, loaded)

    @classmethod
    async def open_found(
        cls, directory: LogDirectory, found: Sequence[FoundLog]
    ) -> list[Log | CorruptFile]:
        """Open logs that are there, in one call of the pool; of one that may not be truncated, return why.

        Raise OSError when the disk fails.
        """
        wanted = []
        for each in found:
            path = f"{directory.path}/{each.topic_partition}"
            files = PartitionDirectory(directory.disk, path, directory.open_files)
            request = LoadRequest(
                each.config,
                directory.clock.now_ms(),
                each.recovery_point,
                each.log_start_offset,
                directory.was_clean,
                None,
                each.cleaner_offset,
            )
            wanted.append((files, request))
        outcomes = await directory.disk.run(load_logs, wanted)
        return [
            outcome
            if isinstance(outcome, CorruptFile)
            else cls(directory, each.topic_partition, each.config, files, outcome)
            for each, (files, _), outcome in zip(found, wanted, outcomes, strict=True)
        ]

    # Where things are

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of this log."""
        return self._context.topic_partition

    @topic_partition.setter
    def topic_partition(self, topic_partition: TopicPartition) -> None:
        self._context.topic_partition = topic_partition

    @property
    def config(self) -> LogConfig:
        """The topic's settings, which the broker replaces live."""
        return self._context.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._context.config = config

    @property
    def topic_id(self) -> TopicId | None:
        """The topic's id; None while none is known."""
        return self._small_files.topic_id

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._segments.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next append gets."""
        return self._segments.end_offset

    @property
    def written_offset(self) -> int:
        """The end of what readers can see; below `log_end_offset` only while a slow disk has a queue."""
        return self._segments.written_offset

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is on the medium."""
        return self._flusher.recovery_point

    @property
    def last_flush_ms(self) -> int:
        """The monotonic time at which the last flush began."""
        return self._flusher.last_flush_ms

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return self._segments.size

    @property
    def path(self) -> str:
        """The partition's directory."""
        return self._context.files.path

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, oldest first; the last one is active. Not to be changed."""
        return self._segments.all

    @property
    def is_readable(self) -> bool:
        """Return whether it is open, on a disk that has not failed."""
        return not self._context.is_closed and self.directory.failure is None

    # Leader epochs

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch that wrote here, or that has begun at the end; -1 when none is known."""
        return self.epochs.latest_epoch

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch that wrote `offset`, or -1."""
        return self.epochs.epoch_at(offset)

    def end_offset_for(self, epoch: int) -> EpochStart:
        """Return the largest epoch <= `epoch` and the offset where it ended; (-1, -1) when nothing is known.

        A leader responds with this to OffsetsForLeaderEpoch (KIP-279); a follower compares it with its own (KIP-320).
        """
        return self.epochs.end_offset_for(epoch, self._segments.end_offset)

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Note that `leader_epoch` begins at `start_offset`; the next flush stores it."""
        self.epochs.assign(leader_epoch, start_offset)

    # Appending and flushing

    def append_fetched(self, buffer: Buffer, leader_epoch: int | None = None) -> Appended | None:
        """Append fetched batches; see `FollowerAppend.append_fetched`."""
        return self._follower.append_fetched(buffer, leader_epoch)

    async def append_or_restart(
        self,
        buffer: Buffer,
        leader_epoch: int | None = None,
        on_restart: Callable[[], None] = lambda: None,
    ) -> Appended | None:
        """Append fetched batches, or restart an empty log; see `FollowerAppend.append_or_restart`."""
        return await self._follower.append_or_restart(buffer, leader_epoch, on_restart)

    def roll(self) -> None:
        """Begin a new active segment at the end of the log, unless the active one is empty."""
        self._writer.roll()

    def pending(self, end_offset: int) -> asyncio.Future[None] | None:
        """Return a future of all below `end_offset` being written, and flushed if settings ask; None if it is."""
        return self._flusher.pending(end_offset)

    async def flush(self) -> None:
        """Return when everything appended before is on the medium. Raise LogDirectoryFailed when it cannot be."""
        await self._flusher.schedule()

    # Reading

    def is_active(self, found: LogRange) -> bool:
        """Return whether a range belongs to the active segment."""
        return self._reader.is_active(found)

    async def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """Return the first record at or after `timestamp`, None when there is none (ListOffsets)."""
        return await self._reader.offset_for_timestamp(timestamp)

    async def latest_timestamp(self) -> TimedOffset | None:
        """Return the first record with the largest timestamp of all (ListOffsets, -3)."""
        return await self._reader.latest_timestamp()

    def aborted_transactions(
        self, offset: int, end_offset: int, within: LogRange | None = None
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch a range; see `LogReader.aborted_transactions`."""
        return self._reader.aborted_transactions(offset, end_offset, within)

    # Truncation and retention

    async def truncate_to(self, offset: int) -> bool:
        """Truncate the log's end; see `LogTruncation.truncate_to`."""
        return await self._truncation.truncate_to(offset)

    async def truncate_fully_and_start_at(self, offset: int) -> None:
        """Delete all records and restart the log at `offset`."""
        await self._truncation.restart_at(offset)

    def delete_before(self, offset: int, high_watermark: int) -> int:
        """Move the log start offset up to `offset`; see `LogStart.delete_before`."""
        return self._start.delete_before(offset, high_watermark)

    def delete_old_segments(self, high_watermark: int) -> int:
        """Remove segments that retention does not keep; see `LogStart.delete_old_segments`."""
        return self._start.delete_old_segments(high_watermark)

    # Compaction

    @property
    def cleaner_offset(self) -> int | None:
        """Everything below was compacted against everything below; None before the first pass."""
        return self._cleaning.offset

    @cleaner_offset.setter
    def cleaner_offset(self, offset: int | None) -> None:
        self._cleaning.offset = offset

    @property
    def is_being_cleaned(self) -> bool:
        """Return whether the cleaner has a pass over the log: retention waits for its end."""
        return self._cleaning.is_running

    @is_being_cleaned.setter
    def is_being_cleaned(self, is_running: bool) -> None:
        self._cleaning.is_running = is_running

    @property
    def replacements(self) -> int:
        """Number of times that cleaned segments replaced others."""
        return self._segments.replacements

    @property
    def truncation_count(self) -> int:
        """Return the number of truncations: offsets that were read before may have other records since."""
        return self._segments.truncation_count

    async def last_of_producers(self, end_offset: int) -> tuple[bytes, dict[int, int]]:
        """Return what the cleaner must keep of each producer; see `SmallFiles.last_of_producers`."""
        return await self._small_files.last_of_producers(end_offset)

    # Life

    async def learn_topic_id(self, topic_id: TopicId) -> None:
        """Store the topic's id where there is none yet. Raise LogDirectoryFailed."""
        await self._small_files.learn_topic_id(topic_id)

    async def close(self, group: SyncGroup | None = None) -> None:
        """Flush, with the other logs of a group, leave everything as a clean start wants it, and release the files."""
        if self._context.is_closed:
            return
        if self.directory.failure is None and not self._is_as_found:
            group = SyncGroup(self.directory.disk) if group is None else group
            with group.member():
                await self._flusher.finish(group)
        self._context.close()
        for segment in self._segments.all:
            segment.close()

    @property
    def _is_as_found(self) -> bool:
        """True if a stop has nothing to write, because a clean start would find this log as it is."""
        segments = self._segments
        return (
            self._is_settled
            and segments.end_offset == self._found_end_offset
            and segments.active is self._found_active
            and segments.truncation_count == 0
            and not self.epochs.is_changed_below(segments.end_offset)
        )

    async def abandon(self, name: str) -> None:
        """Close without finishing anything and rename the directory to `name`: the partition goes, or has moved.

        Readers that hold a range of a file continue; all others are refused.
        """
        self._context.close()
        await self.directory.writes.reached()
        async with self._locks.flush, self._locks.checkpoints:
            for segment in self._segments.all:
                segment.close()
            await self._rename(name)

    async def move_to(self, name: str) -> None:
        """Rename the directory to `name`, durably. The caller must not read or append meanwhile.

        Index entries that are in memory only stay there until it is done.
        """
        await self.directory.writes.reached()
        async with self._locks.flush, self._locks.checkpoints:
            self._context.files.is_being_renamed = True
            try:
                await self._rename(name)
            finally:
                self._context.files.is_being_renamed = False

    async def _rename(self, name: str) -> None:
        directory, path = self.directory, f"{self.directory.path}/{name}"
        directory.check()
        try:
            await directory.disk.run(directory.disk.rename, self._context.files.path, path)
            self._context.files.path = path
            await directory.sync_names()
        except OSError as error:
            raise directory.fail(error) from error
