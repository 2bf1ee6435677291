"""Appending to a log, and beginning a new segment when the active one is full, old, or cannot hold the offsets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from kavka.core.producer_state import CompletedTransaction
from kavka.io import Buffer
from kavka.storage.log.flusher import FlushingLog
from kavka.storage.log.producer_snapshot import encode_snapshot
from kavka.storage.segment.recovery import aborted, replay
from kavka.storage.segment.segment import Segment
from kavka.wire.records.control import decode_end_marker
from kavka.wire.records.header import CONTROL_BIT, BatchHeader

logger = logging.getLogger(__name__)


# A write of 8 bytes costs a microsecond: not for each entry, which comes with each 4 KiB.
_INLINE_ENTRIES = 16


class Appended(NamedTuple):
    """The offsets of an append. `written` is None when it is in the page cache (and flushed, if settings ask for
    it).
    """

    base_offset: int
    last_offset: int
    written: asyncio.Future[None] | None


class AppendingLog(FlushingLog):
    """A log that can be appended to."""

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
        timestamp = last.max_timestamp
        if len(headers) > 1:
            timestamp = max(header.max_timestamp for header in headers)
        _check_markers(buffer, headers)
        segment = self._active
        if segment.must_roll(self.config, size, last_offset, timestamp, directory.clock):
            segment = self._roll(base_offset)
        written: asyncio.Future[None] | None = None
        if directory.writes.is_idle:
            self._write_inline(segment, buffer, headers)
        else:
            written = self._write_queued(segment, buffer, headers)
        self._end_offset = end_offset = last_offset + 1
        self._update_producers(segment, buffer, headers, leader_epoch)
        if end_offset - self.recovery_point >= self.config.flush_messages:
            written = self.schedule_flush()
        return Appended(base_offset, last_offset, written)

    def _write_inline(
        self, segment: Segment, buffer: Buffer, headers: Sequence[BatchHeader]
    ) -> None:
        directory = self.directory
        started = directory.clock.tick_ms()
        position = segment.reserved_size
        try:
            segment.data.file().write_at(buffer, position)
            if self._commit(segment, position, headers):
                if segment.unwritten_entries >= _INLINE_ENTRIES:
                    segment.write_indexes()
                else:
                    directory.write_indexes_soon(segment)
            if position == 0:
                # After a roll that was queued, this made the file: a flush since may have synced too early.
                self._has_new_files = True
                directory.write_indexes_soon(segment)
        except OSError as error:
            self._truncate_failed_write(segment, position)
            raise directory.fail(error) from error
        directory.writes.note_duration(started)

    def _write_queued(
        self, segment: Segment, buffer: Buffer, headers: Sequence[BatchHeader]
    ) -> asyncio.Future[None]:
        disk = self.directory.disk
        truncation_count = self._truncations
        position = segment.reserved_size

        async def write() -> None:
            assert truncation_count == self._truncations, "the log was cut while writes were queued"
            if not segment.data.is_open:
                segment.data.adopt(
                    await disk.run(partial(disk.open, segment.data.path, create=True))
                )
                # A flush since the roll may have synced the directory before the file was there.
                self._has_new_files = True
            file = segment.data.pin()
            try:
                await disk.run(file.write_at, buffer, position)
                if self._commit(segment, position, headers) and segment.are_indexes_due:
                    await segment.write_indexes_in_pool(disk)
                self.directory.write_indexes_soon(segment)
            except OSError:
                self._truncate_failed_write(segment, position)
                raise
            finally:
                segment.data.unpin()

        segment.reserved_size = position + len(buffer)
        return self.directory.writes.submit(write)

    def _commit(self, segment: Segment, position: int, headers: Sequence[BatchHeader]) -> bool:
        """Make written batches visible; tell whether an index has a new entry."""
        is_indexed = segment.commit(position, headers, self.config.index_interval_bytes)
        self._written_offset = segment.next_offset
        return is_indexed

    def _truncate_failed_write(self, segment: Segment, position: int) -> None:
        """Take the bytes of a failed write back, as far as the disk still obeys; the directory is going offline."""
        segment.size = segment.reserved_size = position
        try:
            segment.data.file().truncate(position)
        except OSError as error:
            logger.warning("kept bytes of a failed write log=%s reason=%s", self.path, error)

    def _update_producers(
        self,
        segment: Segment,
        buffer: Buffer,
        headers: Sequence[BatchHeader],
        leader_epoch: int | None,
    ) -> None:
        """Tell the producers and the leader epochs of batches that have their place in the log."""
        epochs = self.epochs
        for header in headers:
            if header.attributes & CONTROL_BIT == 0:
                self.producers.appended(header, header.base_offset)
            elif header.producer_id >= 0:
                completed = replay(self.producers, buffer, header)
                if completed is not None and completed.aborted:
                    self._index_aborted(segment, completed)
            epoch = header.partition_leader_epoch if leader_epoch is None else leader_epoch
            if epoch != epochs.latest_epoch:
                self.assign_epoch(epoch, header.base_offset)

    def _index_aborted(self, segment: Segment, completed: CompletedTransaction) -> None:
        try:
            segment.transaction_index.append(aborted(self.producers, completed))
        except OSError as error:
            raise self.directory.fail(error) from error

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
                old.close_for_append()
                segment.data.file()
            except OSError as error:
                raise self.directory.fail(error) from error
        else:
            self.directory.writes.submit(partial(old.close_for_append_in_pool, self.directory.disk))
        self._segments.append(segment)
        self._base_offsets.append(base_offset)
        self._active = segment
        self._has_new_files = True
        self.directory.spawn(self._after_roll(base_offset, snapshot, self._truncations))
        return segment

    async def _after_roll(self, base_offset: int, snapshot: bytes, truncation_count: int) -> None:
        async with self._checkpoint_lock:
            is_valid = (
                truncation_count == self._truncations and base_offset >= self._base_offsets[0]
            )
            if is_valid and not self._is_closed:
                await self._write_snapshot(base_offset, snapshot)
        await self.flush()


def _check_markers(buffer: Buffer, headers: Sequence[BatchHeader]) -> None:
    """Raise CorruptBatch for a malformed transaction marker, before it gets a place in the log."""
    for header in headers:
        if header.attributes & CONTROL_BIT and header.producer_id >= 0:
            decode_end_marker(buffer, header)
