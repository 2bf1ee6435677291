"""Reading a log: by offset, by time, and the aborted transactions of a range."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from kavka.storage.disk.partition_directory import NotCached
from kavka.storage.failures import OffsetOutOfRange
from kavka.storage.log.context import LogContext
from kavka.storage.log.log_read import LogRange, LogRead
from kavka.storage.log.segments import LogSegments
from kavka.storage.log.times import TimedOffset, first_at_or_after, latest
from kavka.storage.segment.segment import Segment
from kavka.storage.segment.transaction_index import AbortedTransaction

_CAUGHT_UP: Final = LogRead(None)
"""A read that finds nothing and needs no disk; it does not change."""


class LogReader:
    """Finds ranges of the segments' files; it changes nothing."""

    def __init__(self, context: LogContext, segments: LogSegments) -> None:
        """Read `segments`."""
        self._context = context
        self._segments = segments

    def read(
        self,
        offset: int,
        max_bytes: int,
        end_offset: int,
        minimum_one: bool = True,
        *,
        may_block: bool = False,
        may_cut_first: bool = True,
    ) -> LogRead:
        """Find the bytes from the batch that holds `offset` on, of whole batches below `end_offset`, in one segment.

        At most `max_bytes`, which may cut the last batch; the first one is whole all the same if `minimum_one`, and
        nothing is found in place of a part of it unless `may_cut_first`.
        Raise OffsetOutOfRange, LogDirectoryFailed when the directory is offline, and LogClosed.
        """
        segments = self._segments
        if end_offset <= offset and segments.log_start_offset <= offset <= segments.end_offset:
            self._context.check_open()
            return _CAUGHT_UP  # nearly every fetch that waits
        find = partial(self._find, offset, max_bytes, end_offset, minimum_one, may_cut_first)
        try:
            return LogRead(find(may_block))
        except NotCached:
            return LogRead(None, find)

    def _find(
        self,
        offset: int,
        max_bytes: int,
        end_offset: int,
        minimum_one: bool,
        may_cut_first: bool,
        may_block: bool,
    ) -> LogRange | None:
        self._context.check_open()
        segments = self._segments
        if offset < segments.log_start_offset or offset > segments.end_offset:
            raise OffsetOutOfRange(offset, segments.log_start_offset, segments.end_offset)
        limit = min(end_offset, segments.written_offset)
        if offset >= limit:
            return None
        try:
            return self._find_range(offset, max_bytes, limit, minimum_one, may_cut_first, may_block)
        except OSError as error:
            raise self._context.directory.fail(error) from error

    def _find_range(
        self,
        offset: int,
        max_bytes: int,
        limit: int,
        minimum_one: bool,
        may_cut_first: bool,
        may_block: bool,
    ) -> LogRange | None:
        segment = self._segments.active
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
        if minimum_one:
            max_bytes = max(max_bytes, batch_size)
        elif max_bytes < batch_size and not may_cut_first:
            return None
        length = min(end - position, max_bytes)
        return LogRange(segment.data, position, length) if length > 0 else None

    def _locate_in_closed(
        self, offset: int, may_block: bool
    ) -> tuple[Segment, tuple[int, int] | None]:
        """Search from the segment of `offset` on; compaction may have emptied the end of a segment."""
        for segment in self._segments.from_offset(offset):
            place = segment.locate(offset, may_block=may_block)
            if place is not None:
                return segment, place
        return self._segments.active, None

    def is_active(self, found: LogRange) -> bool:
        """Return whether a range belongs to the active segment."""
        return found.is_of(self._segments.active.data)

    async def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """Return the first record at or after `timestamp`, None when there is none (ListOffsets)."""
        start = self._segments.log_start_offset
        return await self._search(
            lambda: first_at_or_after(
                self._context.directory.disk, self._segments.all, timestamp, start
            )
        )

    async def latest_timestamp(self) -> TimedOffset | None:
        """Return the first record with the largest timestamp of all (ListOffsets, -3)."""
        return await self._search(lambda: latest(self._context.directory.disk, self._segments.all))

    async def _search(
        self, search: Callable[[], Awaitable[TimedOffset | None]]
    ) -> TimedOffset | None:
        """Search a log that neither closes nor is cleaned meanwhile: else what was not found may be there."""
        while True:
            self._context.check_open()
            replacements = self._segments.replacements
            found = await search()
            self._context.check_open()
            if found is not None or replacements == self._segments.replacements:
                return found

    def aborted_transactions(
        self, offset: int, end_offset: int, within: LogRange | None = None
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch the offsets from `offset` below `end_offset`, by first offset.

        Those that lie behind the batches of the range `within`, which begins at `offset`, may be left out.
        """
        self._context.check_open()
        found: list[AbortedTransaction] = []
        for segment in self._segments.from_offset(offset):
            if within is not None and within.is_of(segment.data):
                end = within.position + within.length
                end_offset = min(end_offset, segment.offset_bound(end))
            # A transaction may have ended long after it touched the range.
            some, is_complete = segment.transaction_index.collect(offset, end_offset)
            found += some
            if is_complete:
                break
        found.sort(key=_first_offset)
        return found


def _first_offset(aborted: AbortedTransaction) -> int:
    return aborted.first_offset
