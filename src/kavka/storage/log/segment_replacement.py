"""Putting cleaned segments in the place of those that they were made of, as Kafka does it.

    1  .log.cleaned -> .log.swap, then its indexes       before: the old segments count; after: the new one does
    2  old files -> .deleted
    3  .log.swap -> .log, then its indexes
    4  .deleted removed

The directory is synced after each of 1 to 3. `crash_leftovers` continues from wherever a stop was. Readers that have a
range of an old file pinned continue with it; all others find the new segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kavka.storage.log.context import LogContext
from kavka.storage.log.crash_leftovers import CLEANED_SUFFIX, SWAP_SUFFIX
from kavka.storage.log.locks import LogLocks
from kavka.storage.log.producer_snapshot import snapshot_name
from kavka.storage.log.segments import LogSegments
from kavka.storage.segment.segment import DELETED_SUFFIX, Segment

if TYPE_CHECKING:  # a broker without compacted logs does not pay for the module
    from kavka.storage.log.cleaned_segment import CleanedSegment


class SegmentReplacement:
    """Replaces runs of closed segments by cleaned ones."""

    def __init__(self, context: LogContext, segments: LogSegments, locks: LogLocks) -> None:
        """Replace in `segments`."""
        self._context = context
        self._segments = segments
        self._locks = locks

    def new_segment(self, old: Sequence[Segment], end_offset: int) -> CleanedSegment:
        """Return an empty segment that is to replace the run `old`, which ends at `end_offset`."""
        from kavka.storage.log.cleaned_segment import CleanedSegment

        return CleanedSegment(
            self._context.files,
            old[0].base_offset,
            end_offset,
            old[-1].created_ms,
            self._context.config.index_interval_bytes,
        )

    def is_untruncated(self, truncation_count: int) -> bool:
        """Return whether the log is open, has been truncated as often as that, and is not being truncated now."""
        return (
            not self._context.is_closed
            and not self._locks.is_truncating
            and truncation_count == self._segments.truncation_count
        )

    async def replace(
        self, old: Sequence[Segment], cleaned: CleanedSegment, truncation_count: int
    ) -> bool:
        """Replace the run `old` by a finished segment; False when the log was truncated since `truncation_count`.

        Cancelling the caller does not stop the work: it continues in the background. Raise LogDirectoryFailed.
        """
        work = asyncio.get_running_loop().create_task(self._replace(old, cleaned, truncation_count))
        self._context.directory.spawn(_finished(work))
        return await asyncio.shield(work)

    async def _replace(
        self, old: Sequence[Segment], cleaned: CleanedSegment, truncation_count: int
    ) -> bool:
        try:
            async with self._locks.exclusive(), self._locks.names:
                return await self.swap(old, cleaned, truncation_count)
        finally:
            cleaned.release()

    async def swap(
        self, old: Sequence[Segment], cleaned: CleanedSegment, truncation_count: int
    ) -> bool:
        """Rename the files, in the order above, under the exclusive lock and that of names."""
        self._context.directory.check()
        segments = self._segments
        is_there = not self._context.is_closed and segments.has_closed_run(old)
        disk, files, new = self._context.directory.disk, self._context.files, cleaned.segment
        if truncation_count != segments.truncation_count or not is_there:
            await cleaned.discard()
            return False
        await disk.run(files.rename_all, _renamed(new, CLEANED_SUFFIX, SWAP_SUFFIX))
        await disk.run(files.sync)
        segments.replace(old, new)
        retired = [data.retire(DELETED_SUFFIX) for segment in old for data in segment.files]
        deleted = await disk.run(files.rename_all, retired)
        await disk.run(files.sync)
        await disk.run(files.rename_all, _renamed(new, SWAP_SUFFIX, ""))
        await disk.run(files.sync)
        snapshots = [snapshot_name(s.base_offset) for s in old[1:]]
        await disk.run(files.remove_all, [*deleted, *snapshots])
        return True


async def _finished(work: asyncio.Task[bool]) -> None:
    await work


def _renamed(segment: Segment, suffix: str, new_suffix: str) -> list[tuple[str, str]]:
    """Rename the files of a segment to another suffix; return the old and the new names."""
    renames = []
    for data in segment.files:
        old = data.name
        data.name = old.removesuffix(suffix) + new_suffix
        renames.append((old, data.name))
    return renames
