"""Appending to a log, and beginning a new segment when the active one is full, old, or cannot hold the offsets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from kavka.core.producer_state import CompletedTransaction
from kavka.ids import NO_PRODUCER_ID
from kavka.io import Buffer
from kavka.storage.log.context import LogContext
from kavka.storage.log.flusher import LogFlusher
from kavka.storage.log.producer_snapshot import encode_snapshot
from kavka.storage.log.segments import LogSegments
from kavka.storage.log.small_files import SmallFiles
from kavka.storage.segment.recovery import aborted, replay_marker
from kavka.storage.segment.segment import Segment
from kavka.wire.records.control import EndMarker, decode_end_marker
from kavka.wire.records.header import CONTROL_BIT, BatchHeader

logger = logging.getLogger(__name__)


# A write of 8 bytes costs a microsecond: not for each entry, which comes with each 4 KiB.
_INLINE_ENTRIES = 16


Markers = dict[int, EndMarker | None]
"""The markers in a buffer, by the position of their control batch; None where a control batch has none."""


class Appended(NamedTuple):
    """The offsets of an append. `written` is None when it is in the page cache (and flushed, if required)."""

    base_offset: int
    last_offset: int
    written: asyncio.Future[None] | None


class LogWriter:
    """Appends at the end of the segments, and begins new ones."""

    def __init__(
        self,
        context: LogContext,
        segments: LogSegments,
        small_files: SmallFiles,
        flusher: LogFlusher,
    ) -> None:
        """Append to `segments`; `small_files` learns epochs and producers, `flusher` flushes after rolls."""
        self._context = context
        self._directory = context.directory
        self._segments = segments
        self._small_files = small_files
        self._producers = small_files.producers
        self._epochs = small_files.epochs
        self._flusher = flusher

    def append(
        self,
        buffer: Buffer,
        headers: Sequence[BatchHeader],
        leader_epoch: int | None = None,
        markers: Markers | None = None,
    ) -> Appended:
        """Append whole batches with assigned offsets; `headers` are those of `buffer`, from its first byte on.

        `leader_epoch` is the leader's; a follower passes None, and each batch speaks for itself. `producers` learns
        of the batches here. `markers` are those of all control batches, or None when they are to be decoded. The
        buffer belongs to the log until `written` is done. Raise LogDirectoryFailed when the disk fails or has failed;
        nothing of the buffer is visible then.
        """
        directory, segments, config = self._directory, self._segments, self._context.config
        if directory.failure is not None:
            directory.check()
        base_offset = headers[0].base_offset
        assert base_offset >= segments.end_offset, (base_offset, segments.end_offset)
        last = headers[-1]
        last_offset = last.base_offset + last.last_offset_delta
        size = len(buffer)
        assert last.position + last.size == size, "the headers are not those of the buffer"
        timestamp = last.max_timestamp
        if len(headers) > 1:
            timestamp = max(header.max_timestamp for header in headers)
        if markers is None and (len(headers) > 1 or last.attributes & CONTROL_BIT):
            markers = _markers_of(buffer, headers)
        segment = segments.active
        if segment.must_roll(config, size, last_offset, timestamp, directory.clock):
            segment = self.roll_at(base_offset)
        written: asyncio.Future[None] | None = None
        if directory.writes.is_idle:
            self._write_inline(segment, buffer, headers)
        else:
            written = self._write_queued(segment, buffer, headers)
        segments.end_offset = end_offset = last_offset + 1
        self._update_producers(segment, headers, markers, leader_epoch)
        if end_offset - self._flusher.recovery_point >= config.flush_messages:
            written = self._flusher.schedule()
        return Appended(base_offset, last_offset, written)

    def _write_inline(
        self, segment: Segment, buffer: Buffer, headers: Sequence[BatchHeader]
    ) -> None:
        directory = self._directory
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
                self._small_files.has_new_files = True
                directory.write_indexes_soon(segment)
        except OSError as error:
            self._truncate_failed_write(segment, position)
            raise directory.fail(error) from error
        directory.writes.note_duration(started)

    def _write_queued(
        self, segment: Segment, buffer: Buffer, headers: Sequence[BatchHeader]
    ) -> asyncio.Future[None]:
        disk, segments = self._directory.disk, self._segments
        truncation_count = segments.truncation_count
        position = segment.reserved_size

        async def write() -> None:
            assert truncation_count == segments.truncation_count, (
                "the log was cut while writes were queued"
            )
            if not segment.data.is_open:
                segment.data.adopt(
                    await disk.run(partial(disk.open, segment.data.path, create=True))
                )
                # A flush since the roll may have synced the directory before the file was there.
                self._small_files.has_new_files = True
            file = segment.data.pin()
            try:
                await disk.run(file.write_at, buffer, position)
                if self._commit(segment, position, headers) and segment.are_indexes_due:
                    await segment.write_indexes_in_pool(disk)
                self._directory.write_indexes_soon(segment)
            except OSError:
                self._truncate_failed_write(segment, position)
                raise
            finally:
                segment.data.unpin()

        segment.reserved_size = position + len(buffer)
        return self._directory.writes.submit(write)

    def _commit(self, segment: Segment, position: int, headers: Sequence[BatchHeader]) -> bool:
        """Make written batches visible; return whether an index has a new entry."""
        is_indexed = segment.commit(position, headers, self._context.config.index_interval_bytes)
        self._segments.written_offset = segment.next_offset
        return is_indexed

    def _truncate_failed_write(self, segment: Segment, position: int) -> None:
        """Take the bytes of a failed write back, as far as the disk still obeys; the directory is going offline."""
        segment.size = segment.reserved_size = position
        try:
            segment.data.file().truncate(position)
        except OSError as error:
            logger.warning(
                "kept bytes of a failed write log=%s reason=%s", self._context.files.path, error
            )

    def _update_producers(
        self,
        segment: Segment,
        headers: Sequence[BatchHeader],
        markers: Markers | None,
        leader_epoch: int | None,
    ) -> None:
        """Update the producers and the leader epochs with batches that have their place in the log."""
        epochs = self._epochs
        for header in headers:
            if header.attributes & CONTROL_BIT == 0:
                if header.producer_id != NO_PRODUCER_ID:
                    self._producers.appended(header, header.base_offset)
            elif markers is not None and header.producer_id >= 0:
                marker = markers[header.position]
                completed = replay_marker(self._producers, header, marker)
                if completed is not None and completed.aborted:
                    self._index_aborted(segment, completed)
            epoch = header.partition_leader_epoch if leader_epoch is None else leader_epoch
            if epoch != epochs.latest_epoch:
                epochs.assign(epoch, header.base_offset)

    def _index_aborted(self, segment: Segment, completed: CompletedTransaction) -> None:
        try:
            segment.transaction_index.append(aborted(self._producers, completed))
        except OSError as error:
            raise self._directory.fail(error) from error

    # Rolling

    def roll(self) -> None:
        """Begin a new active segment at the end of the log, unless the active one is empty."""
        self._directory.check()
        if self._segments.active.reserved_size:
            self.roll_at(self._segments.end_offset)

    def roll_at(self, base_offset: int) -> Segment:
        """Begin a new segment at `base_offset`, finish the old one, and flush it in the background."""
        segments, old = self._segments, self._segments.active
        snapshot = encode_snapshot(self._producers.entries())
        segment = segments.new(base_offset)
        if self._directory.writes.is_idle:
            try:
                old.close_for_append()
                segment.data.file()
            except OSError as error:
                raise self._directory.fail(error) from error
        else:
            self._directory.writes.submit(
                partial(old.close_for_append_in_pool, self._directory.disk)
            )
        segments.add(segment)
        self._small_files.has_new_files = True
        self._directory.spawn(self._after_roll(base_offset, snapshot, segments.truncation_count))
        return segment

    async def _after_roll(self, base_offset: int, snapshot: bytes, truncation_count: int) -> None:
        await self._small_files.write_snapshot(base_offset, snapshot, truncation_count)
        await self._flusher.schedule()


def _markers_of(buffer: Buffer, headers: Sequence[BatchHeader]) -> Markers | None:
    """Return the transaction markers by their position, None without any.

    Raise CorruptBatch for a malformed one, before it gets a place in the log.
    """
    found: Markers | None = None
    for header in headers:
        if header.attributes & CONTROL_BIT and header.producer_id >= 0:
            if found is None:
                found = {}
            found[header.position] = decode_end_marker(buffer, header)
    return found
