"""One partition's log: append, read, flush, truncate, delete.

    log_start_offset      high watermark   written_offset    log_end_offset
    |--- segments ------------|-----------------|- - queued - - |
                      |--- active segment ---->
              recovery_point: all below is on the medium

Invariant: log_start_offset <= written_offset <= log_end_offset. The leader gives out offsets from `log_end_offset` on;
bytes in the queue of a slow disk have theirs already and cannot be read yet. The high watermark belongs to `core`.
All methods run on the loop; those that need the medium are coroutines.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from kavka.core.producer_state import CompletedTransaction
from kavka.doors import Buffer
from kavka.ids import TopicId, TopicPartition
from kavka.storage import log_loading
from kavka.storage.failures import OffsetOutOfRange
from kavka.storage.leader_epochs import LEADER_EPOCHS
from kavka.storage.log_config import LogConfig
from kavka.storage.log_directory import LogDirectory
from kavka.storage.log_read import LogRange, LogRead
from kavka.storage.log_times import TimedOffset, first_at_or_after, latest
from kavka.storage.partition_directory import Cold, DataFile, PartitionDirectory
from kavka.storage.producer_snapshot import SNAPSHOT_SUFFIX, encode_snapshot
from kavka.storage.retention import Retention
from kavka.storage.segment import DELETED_SUFFIX, Segment, segment_name
from kavka.storage.transaction_index import AbortedTransaction
from kavka.wire.records.control import decode_end_marker
from kavka.wire.records.header import CONTROL_BIT, BatchHeader

logger = logging.getLogger(__name__)


class Appended(NamedTuple):
    """Where an append went. `written` is None when it is in the page cache (and flushed, if settings ask for it)."""

    base_offset: int
    last_offset: int
    written: asyncio.Future[None] | None


class Log:
    """An open log. Made by `Log.open`."""

    def __init__(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        config: LogConfig,
        files: PartitionDirectory,
        loaded: log_loading.LoadedLog,
    ) -> None:
        """Take over what was loaded."""
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id: TopicId | None = loaded.topic_id
        self.config = config
        self.recovery = loaded.recovery
        self.producers = loaded.producers
        self.epochs = loaded.epochs
        self.log_start_offset = loaded.log_start_offset
        self.recovery_point = loaded.recovery_point
        self.last_flush_ms = directory.clock.tick_ms()
        self._files = files
        self._segments = loaded.segments
        self._base_offsets = [segment.base_offset for segment in loaded.segments]
        self._active = loaded.segments[-1]
        self._active.jitter_ms = self._next_jitter_ms()
        self._written_offset = self._end_offset = loaded.end_offset
        self._cuts = 0
        self._has_new_files = loaded.has_new_files
        self._snapshot_offset = loaded.snapshot_offset
        self._is_closed = False
        self._waiting_flush: asyncio.Task[None] | None = None
        self._flush_lock = asyncio.Lock()
        # Held while snapshots or leader epochs are written, so that none of them outlives a truncation.
        self._facts_lock = asyncio.Lock()
        self._is_writing_epochs = False

    @classmethod
    async def open(
        cls,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        topic_id: TopicId | None = None,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        is_clean: bool = False,
        name: str | None = None,
    ) -> Log:
        """Open or create the log, after recovering it when it was not closed cleanly (`log.recovery` tells).

        The two offsets are those of the directory's checkpoints. Raise OSError when the disk fails, CorruptFile
        when the directory holds what may not be cut (messages of the legacy formats).
        """
        path = f"{directory.path}/{name or topic_partition}"
        files = PartitionDirectory(directory.disk, path, directory.open_files)
        request = log_loading.LoadRequest(
            config, directory.clock.now_ms(), recovery_point, log_start_offset, is_clean, topic_id
        )
        loaded = await log_loading.load_log(files, request)
        # What loading changed in the leader epochs is written with the next change or flush: an empty log forgets its
        # epoch here and gets it again from its leader, which is no reason to write a file of every partition twice.
        return cls(directory, topic_partition, config, files, loaded)

    # Where things are

    @property
    def log_end_offset(self) -> int:
        """The offset that the next append gets."""
        return self._end_offset

    @property
    def written_offset(self) -> int:
        """The end of what readers can see; below `log_end_offset` only while a slow disk has a queue."""
        return self._written_offset

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return sum(segment.size for segment in self._segments)

    @property
    def path(self) -> str:
        """The partition's directory."""
        return self._files.path

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, oldest first; the last one is active. Not to be changed."""
        return self._segments

    # Appending

    def append(
        self, buffer: Buffer, headers: Sequence[BatchHeader], leader_epoch: int | None = None
    ) -> Appended:
        """Append whole batches whose offsets are assigned; `headers` are those of `buffer`, from its first byte on.

        `leader_epoch` is the leader's; a follower passes None, and each batch speaks for itself. `producers` learns
        of the batches here. The buffer belongs to the log until `written` is done. Raise LogDirectoryFailed when
        the disk fails or has failed; nothing of the buffer is visible then.
        """
        directory = self.directory
        if directory.failure is not None:
            directory.check()
        base_offset = headers[0].base_offset
        assert base_offset >= self._end_offset, (base_offset, self._end_offset)
        last = headers[-1]
        last_offset = last.base_offset + last.last_offset_delta
        size = len(buffer)
        assert last.position + last.size == size, "the headers are not those of the buffer"
        _check_markers(buffer, headers)
        segment = self._active
        timestamp = (
            last.max_timestamp if len(headers) == 1 else max(h.max_timestamp for h in headers)
        )
        now_ms = directory.clock.now_ms()
        if segment.must_roll(self.config, size, last_offset, timestamp, now_ms):
            segment = self._roll(base_offset)
        position = segment.reserved_size
        written: asyncio.Future[None] | None = None
        if directory.writes.is_idle:
            self._write_inline(segment, position, buffer, headers)
        else:
            written = self._write_queued(segment, position, buffer, headers)
        self._end_offset = last_offset + 1
        self._remember(segment, buffer, headers, leader_epoch)
        if self._end_offset - self.recovery_point >= self.config.flush_messages:
            written = self.schedule_flush()
        return Appended(base_offset, last_offset, written)

    def _write_inline(
        self, segment: Segment, position: int, buffer: Buffer, headers: Sequence[BatchHeader]
    ) -> None:
        queue = self.directory.writes
        started = self.directory.clock.tick_ms()
        try:
            segment.data.file().write_at(buffer, position)
            self._commit(segment, position, headers)
            if position == 0:
                # After a roll that was queued, this made the file: a flush since may have synced too early.
                self._has_new_files = True
            if segment.are_indexes_due:
                segment.write_indexes()
        except OSError as error:
            self._cut_failed_write(segment, position)
            raise self.directory.fail(error) from error
        queue.note_duration(started)

    def _write_queued(
        self, segment: Segment, position: int, buffer: Buffer, headers: Sequence[BatchHeader]
    ) -> asyncio.Future[None]:
        disk = self.directory.disk
        cuts = self._cuts

        async def write() -> None:
            assert cuts == self._cuts, "the log was cut while writes were queued"
            if not segment.data.is_open:
                segment.data.adopt(
                    await disk.run(partial(disk.open, segment.data.path, create=True))
                )
                # A flush since the roll may have synced the directory before the file was there.
                self._has_new_files = True
            file = segment.data.pin()
            try:
                await disk.run(file.write_at, buffer, position)
                self._commit(segment, position, headers)
                if segment.are_indexes_due:
                    await segment.write_indexes_in_pool(disk)
            except OSError:
                self._cut_failed_write(segment, position)
                raise
            finally:
                segment.data.unpin()

        segment.reserved_size = position + len(buffer)
        return self.directory.writes.submit(write, len(buffer))

    def _commit(self, segment: Segment, position: int, headers: Sequence[BatchHeader]) -> None:
        """Make written batches visible."""
        interval = self.config.index_interval_bytes
        for header in headers:
            segment.commit(position + header.position, header, interval)
        self._written_offset = segment.next_offset

    def _cut_failed_write(self, segment: Segment, position: int) -> None:
        """Take the bytes of a failed write back, as far as the disk still obeys; the directory is going offline."""
        segment.size = segment.reserved_size = position
        try:
            segment.data.file().truncate(position)
        except OSError as error:
            logger.warning("kept bytes of a failed write log=%s reason=%s", self.path, error)

    def _remember(
        self,
        segment: Segment,
        buffer: Buffer,
        headers: Sequence[BatchHeader],
        leader_epoch: int | None,
    ) -> None:
        """Tell the producers and the leader epochs of batches that have their place in the log."""
        epochs = self.epochs
        for header in headers:
            if header.producer_id >= 0:
                completed = log_loading.replay(self.producers, buffer, header)
                if completed is not None and completed.aborted:
                    self._index_aborted(segment, completed)
            epoch = header.partition_leader_epoch if leader_epoch is None else leader_epoch
            if epoch != epochs.latest_epoch:
                self.assign_epoch(epoch, header.base_offset)

    def _index_aborted(self, segment: Segment, completed: CompletedTransaction) -> None:
        try:
            segment.transaction_index.append(log_loading.aborted(self.producers, completed))
        except OSError as error:
            raise self.directory.fail(error) from error

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Note that `leader_epoch` begins at `start_offset`; the file is written soon."""
        self.epochs.assign(leader_epoch, start_offset)
        self._schedule_epochs()

    def _schedule_epochs(self) -> None:
        if self.epochs.is_changed and not self._is_writing_epochs:
            self._is_writing_epochs = True
            self.directory.spawn(self._write_epochs())

    async def _write_epochs(self) -> None:
        async with self._facts_lock:
            self._is_writing_epochs = False
            if not self._is_closed:
                await self._write_changed_epochs()

    async def _write_changed_epochs(self) -> None:
        if self.epochs.is_changed:
            self.epochs.note_stored()
            await self.directory.replace_file(
                self._files.path_of(LEADER_EPOCHS), self.epochs.encode()
            )

    # Rolling

    def roll(self) -> None:
        """Begin a new active segment at the end of the log, unless the active one is empty."""
        self.directory.check()
        if self._active.reserved_size:
            self._roll(self._end_offset)

    def _roll(self, base_offset: int) -> Segment:
        """Begin a new segment at `base_offset`, finish the old one, and flush it in the background."""
        old = self._active
        snapshot = encode_snapshot(self.producers.entries())
        segment = self._new_segment(base_offset)
        if self.directory.writes.is_idle:
            try:
                old.seal()
                segment.data.file()
            except OSError as error:
                raise self.directory.fail(error) from error
        else:
            self.directory.writes.submit(partial(old.seal_in_pool, self.directory.disk), 0)
        self._segments.append(segment)
        self._base_offsets.append(base_offset)
        self._active = segment
        self._has_new_files = True
        self.directory.spawn(self._after_roll(base_offset, snapshot, self._cuts))
        return segment

    def _new_segment(self, base_offset: int) -> Segment:
        return Segment(
            self._files, base_offset, self.directory.clock.now_ms(), self._next_jitter_ms()
        )

    def _next_jitter_ms(self) -> int:
        bound = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return int(self.directory.chance.random() * bound) if bound > 0 else 0

    async def _after_roll(self, base_offset: int, snapshot: bytes, cuts: int) -> None:
        async with self._facts_lock:
            is_valid = cuts == self._cuts and base_offset >= self.log_start_offset
            if is_valid and not self._is_closed:
                await self._write_snapshot(base_offset, snapshot)
        await self.flush()

    async def _write_snapshot(self, offset: int, snapshot: bytes) -> None:
        name = segment_name(offset) + SNAPSHOT_SUFFIX
        await self.directory.replace_file(self._files.path_of(name), snapshot)
        self._snapshot_offset = max(self._snapshot_offset, offset)

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        end_offset: int,
        minimum_one: bool = True,
        *,
        may_block: bool = False,
    ) -> LogRead:
        """Find the bytes from the batch that holds `offset` on, of whole batches below `end_offset`, in one segment.

        At most `max_bytes`, which may cut the last batch; the first one is whole all the same if `minimum_one`.
        Raise OffsetOutOfRange, and LogDirectoryFailed when the directory is offline.
        """
        try:
            return LogRead(self._find(offset, max_bytes, end_offset, minimum_one, may_block))
        except Cold:
            return LogRead(None, partial(self._find, offset, max_bytes, end_offset, minimum_one))

    def _find(
        self, offset: int, max_bytes: int, end_offset: int, minimum_one: bool, may_block: bool
    ) -> LogRange | None:
        if self.directory.failure is not None:
            self.directory.check()
        if offset < self.log_start_offset or offset > self._end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self._end_offset)
        limit = min(end_offset, self._written_offset)
        if offset >= limit:
            return None
        try:
            return self._find_range(offset, max_bytes, limit, minimum_one, may_block)
        except OSError as error:
            raise self.directory.fail(error) from error

    def _find_range(
        self, offset: int, max_bytes: int, limit: int, minimum_one: bool, may_block: bool
    ) -> LogRange | None:
        segment = self._active
        place: tuple[int, int] | None
        if offset >= segment.base_offset:
            place = segment.locate(offset, may_block=may_block)
        else:
            segment, place = self._locate_in_closed(offset, may_block)
        if place is None:
            return None
        position, batch_size = place
        end = segment.size
        if limit < segment.next_offset:
            last = segment.locate(limit, may_block=may_block)
            if last is not None:
                end = last[0]
        wanted = max(max_bytes, batch_size) if minimum_one else max_bytes
        length = min(end - position, wanted)
        return LogRange(segment.data, position, length) if length > 0 else None

    def _locate_in_closed(
        self, offset: int, may_block: bool
    ) -> tuple[Segment, tuple[int, int] | None]:
        """Search from the segment of `offset` on; compaction may have emptied the end of a segment."""
        index = bisect_right(self._base_offsets, offset) - 1
        for segment in self._segments[index:]:
            place = segment.locate(offset, may_block=may_block)
            if place is not None:
                return segment, place
        return self._active, None

    async def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """Return the first record at or after `timestamp`, None when there is none (ListOffsets)."""
        disk = self.directory.disk
        return await first_at_or_after(disk, self._segments, timestamp, self.log_start_offset)

    async def latest_timestamp(self) -> TimedOffset | None:
        """Return the first record with the largest timestamp of all (ListOffsets, -3)."""
        return await latest(self.directory.disk, self._segments)

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch the offsets from `offset` below `end_offset`."""
        found: list[AbortedTransaction] = []
        index = max(bisect_right(self._base_offsets, offset) - 1, 0)
        for segment in self._segments[index:]:
            some, is_complete = segment.transaction_index.collect(offset, end_offset)
            found += some
            if is_complete:
                break
        return found

    # Flushing

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
            await self.directory.writes.drained()
            self._waiting_flush = None
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
        self.last_flush_ms = self.directory.clock.tick_ms()
        if target <= self.recovery_point and not self._has_new_files:
            return
        disk = self.directory.disk
        first = max(bisect_right(self._base_offsets, self.recovery_point) - 1, 0)
        for segment in self._segments[first:]:
            is_active = segment is self._active
            for data in segment.files[:1] if is_active else segment.files[:3]:
                await self._sync(data)
            if not segment.transaction_index.is_empty:
                await self._sync(segment.transaction_index.data)
        await self._write_epochs()
        if self._has_new_files:
            self._has_new_files = False
            await disk.run(disk.sync_directory, self._files.path)
        if cuts == self._cuts:
            self.recovery_point = max(self.recovery_point, target)

    async def _sync(self, data: DataFile) -> None:
        if data.is_discarded:
            return
        file = data.pin()
        try:
            await self.directory.disk.run(file.sync)
        finally:
            data.unpin()

    # Cutting the end

    async def truncate_to(self, offset: int) -> bool:
        """Cut the log at the start of the batch that holds `offset`; False when it ends there already.

        A follower calls this, and nobody appends or flushes meanwhile. Raise LogDirectoryFailed when the disk fails.
        """
        await self.directory.writes.drained()
        self.directory.check()
        if offset >= self._end_offset:
            self.epochs.truncate_from_end(offset)
            return False
        if offset < self._base_offsets[0]:
            await self.truncate_fully_and_start_at(offset)
            return True
        async with self._facts_lock:
            try:
                self._cut_segments(offset)
            except OSError as error:
                raise self.directory.fail(error) from error
            await self._after_cut()
        return True

    def _cut_segments(self, offset: int) -> None:
        self._cuts += 1
        kept = bisect_left(self._base_offsets, offset)
        kept = max(kept, 1)
        self._drop_segments(self._segments[kept:])
        del self._segments[kept:], self._base_offsets[kept:]
        active = self._segments[-1]
        cut = active.truncate(offset, self.directory.clock.now_ms())
        self._make_active(active, active.next_offset)
        logger.info(
            "log was truncated log=%s end_offset=%d bytes=%d", self.path, self._end_offset, cut
        )

    def _make_active(self, active: Segment, end_offset: int) -> None:
        """Let the log end with `active` at `end_offset`, and pull all other offsets below that."""
        self._active = active
        self._written_offset = self._end_offset = end_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.epochs.truncate_from_end(end_offset)

    def _drop_segments(self, segments: Sequence[Segment]) -> None:
        """Rename the files of segments that left the log, and remove them later."""
        names = [name for segment in segments for name in segment.mark_deleted()]
        self._remove_later(names)

    def _remove_later(self, names: list[str]) -> None:
        self.directory.remove_later(
            partial(self._files.remove_all, names), self.config.file_delete_delay_ms
        )

    async def _after_cut(self) -> None:
        try:
            self.producers.clear()
            self._snapshot_offset = await log_loading.reload_producers(
                self._files, self._segments, self.producers, self._end_offset
            )
            await self._write_changed_epochs()
        except OSError as error:
            raise self.directory.fail(error) from error

    async def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and begin anew at `offset`: the leader's log begins there."""
        await self.directory.writes.drained()
        self.directory.check()
        async with self._facts_lock:
            try:
                self._start_anew(offset)
            except OSError as error:
                raise self.directory.fail(error) from error
            await self._after_cut()
        logger.info("log was emptied log=%s start_offset=%d", self.path, offset)

    def _start_anew(self, offset: int) -> None:
        self._cuts += 1
        bases = list(self._base_offsets)
        self._drop_segments(self._segments)
        self._drop_snapshots(bases)
        segment = self._new_segment(offset)
        segment.data.file()
        self._segments[:] = [segment]
        self._base_offsets[:] = [offset]
        self._has_new_files = True
        self.epochs.clear()
        self.log_start_offset = offset
        self._make_active(segment, offset)
        self.recovery_point = offset

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

        None above the high watermark goes; what stays is never below retention.bytes. Return how many segments went.
        """
        self.directory.check()
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
        self._drop_segments(going)
        self._drop_snapshots([segment.base_offset for segment in going])
        start = self._base_offsets[0]
        if start > self.log_start_offset:
            self.log_start_offset = start
            self.epochs.truncate_from_start(start)
        logger.info(
            "old segments were removed log=%s count=%d start_offset=%d", self.path, count, start
        )

    def _drop_snapshots(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            data = DataFile(self._files, segment_name(offset) + SNAPSHOT_SUFFIX)
            try:
                data.rename(data.name + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            self._remove_later([data.name])

    # Ending

    async def close(self) -> None:
        """Flush, leave everything as a clean start wants it, and release the files."""
        if self._is_closed:
            return
        if self.directory.failure is None:
            await self.flush()
            await self._finish()
        self._is_closed = True
        for segment in self._segments:
            segment.close()

    async def abandon(self, path: str) -> None:
        """Close without finishing anything and move the directory to `path`: the partition is being deleted."""
        await self.directory.writes.drained()
        async with self._flush_lock, self._facts_lock:
            self._is_closed = True
            for segment in self._segments:
                segment.close()
            disk = self.directory.disk
            try:
                disk.rename(self._files.path, path)
                self._files.path = path
                await disk.run(disk.sync_directory, self.directory.path)
            except OSError as error:
                raise self.directory.fail(error) from error

    async def _finish(self) -> None:
        try:
            if self._active.size:
                self._active.note_largest_timestamp()
                self._active.write_indexes()
                for data in self._active.files[1:3]:
                    await self._sync(data)
            await self._write_epochs()
            if self._end_offset > self._snapshot_offset:
                async with self._facts_lock:
                    snapshot = encode_snapshot(self.producers.entries())
                    await self._write_snapshot(self._end_offset, snapshot)
        except OSError as error:
            raise self.directory.fail(error) from error


def _mark_retrieved(future: asyncio.Future[None]) -> None:
    """Let nobody complain that a failure was not looked at: the directory's going offline was told already."""
    if not future.cancelled():
        future.exception()


def _check_markers(buffer: Buffer, headers: Sequence[BatchHeader]) -> None:
    """Raise CorruptBatch for a malformed transaction marker, before it gets a place in the log."""
    for header in headers:
        if header.attributes & CONTROL_BIT and header.producer_id >= 0:
            decode_end_marker(buffer, header)
