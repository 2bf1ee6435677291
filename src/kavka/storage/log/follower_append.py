"""Appends of a follower: the leader's batches unchanged, with the leader's offsets and epochs.

    our log   |--------------|            log end
    fetched                  |---| |-----| |--      offsets may leap where the leader's cleaner removed batches

A fetch may begin in the middle of a batch only when our log is empty: the leader's log starts there (DeleteRecords),
and the batch comes whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kavka.io import Buffer
from kavka.storage.failures import OffsetBelowEnd
from kavka.storage.log.context import LogContext
from kavka.storage.log.segments import LogSegments
from kavka.storage.log.truncation import LogTruncation
from kavka.storage.log.writer import Appended, LogWriter
from kavka.wire.crc32c import crc32c
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import CRC_START, BatchHeader, walk_complete

_MAX_RELATIVE_OFFSET = 2**31 - 1


class FollowerAppend:
    """Appends what was fetched: from a leader, or from the log that this one is to replace in another directory."""

    def __init__(
        self,
        context: LogContext,
        segments: LogSegments,
        writer: LogWriter,
        truncation: LogTruncation,
    ) -> None:
        """Append by `writer`; restart an empty log by `truncation`."""
        self._context = context
        self._segments = segments
        self._writer = writer
        self._truncation = truncation

    def append_fetched(self, buffer: Buffer, leader_epoch: int | None = None) -> Appended | None:
        """Append the whole batches at the start of `buffer`; a last one that is cut, as Fetch may leave it, stays out.

        Batches of a later epoch than `leader_epoch` stay out too: whoever sent them is not the leader any more that
        was asked. Return None when nothing was appended. The buffer belongs to the log until `written` is done.
        Raise CorruptBatch for unsound batches, OffsetBelowEnd for ones that we have already, and LogDirectoryFailed.
        """
        headers = _of_epochs_up_to(leader_epoch, walk_complete(buffer))
        if not headers:
            return None
        view = memoryview(buffer)
        self._check_fetched(view, headers)
        segment_bytes, end = self._context.config.segment_bytes, headers[-1].end
        if end <= segment_bytes and _is_near(headers):
            return self._writer.append(view[:end], headers)
        last: Appended | None = None
        for group in _groups(headers, segment_bytes):
            start = group[0].position
            moved = [header._replace(position=header.position - start) for header in group]
            last = self._writer.append(view[start : group[-1].end], moved)
        assert last is not None
        return last._replace(base_offset=headers[0].base_offset)

    async def append_or_restart(
        self,
        buffer: Buffer,
        leader_epoch: int | None = None,
        on_restart: Callable[[], None] = lambda: None,
    ) -> Appended | None:
        """Append as `append_fetched`; an empty log that ends inside of the first batch begins at that batch.

        Whoever we copy has its log start offset there, and keeps the batch whole (KAFKA-6361). `on_restart` is called
        before anything is appended. Raise CorruptBatch, also for batches that we have already, and LogDirectoryFailed.
        """
        try:
            return self.append_fetched(buffer, leader_epoch)
        except OffsetBelowEnd as error:
            if not error.may_restart:
                raise CorruptBatch(str(error), 0) from error
            await self._truncation.restart_at(error.base_offset)
        on_restart()
        return self.append_fetched(buffer, leader_epoch)

    def _check_fetched(self, view: memoryview, headers: Sequence[BatchHeader]) -> None:
        segments = self._segments
        first, last_offset = headers[0], headers[0].base_offset - 1
        if first.base_offset < segments.end_offset:
            is_empty = segments.log_start_offset == segments.end_offset
            raise OffsetBelowEnd(
                first.base_offset,
                segments.end_offset,
                may_restart=is_empty and first.last_offset >= segments.end_offset,
            )
        for header in headers:
            position, base_offset, last_offset_delta = header[0], header[1], header[8]
            if base_offset <= last_offset or last_offset_delta < 0:
                raise CorruptBatch(
                    f"offset {base_offset} to {header.last_offset} after {last_offset}", position
                )
            last_offset = base_offset + last_offset_delta
            if crc32c(view[position + CRC_START : position + header[3]]) != header[6]:
                raise CorruptBatch("a batch that fails its checksum", position)


def _of_epochs_up_to(
    leader_epoch: int | None, headers: Sequence[BatchHeader]
) -> Sequence[BatchHeader]:
    if leader_epoch is None:
        return headers
    for index, header in enumerate(headers):
        if header.partition_leader_epoch > leader_epoch:
            return headers[:index]
    return headers


def _is_near(headers: Sequence[BatchHeader]) -> bool:
    """Return whether all offsets fit into one segment."""
    return headers[-1].last_offset - headers[0].base_offset <= _MAX_RELATIVE_OFFSET


def _groups(headers: Sequence[BatchHeader], segment_bytes: int) -> Iterator[Sequence[BatchHeader]]:
    """Cut the batches so that each group fits into a segment, by size and by offsets; at least one batch each."""
    start = 0
    for index, header in enumerate(headers):
        first = headers[start]
        is_full = (
            header.end - first.position > segment_bytes
            or header.last_offset - first.base_offset > _MAX_RELATIVE_OFFSET
        )
        if is_full and index > start:
            yield headers[start:index]
            start = index
    yield headers[start:]
