"""Putting cleaned segments in the place of those that they were made of, as Kafka does it.

    1  .log.cleaned -> .log.swap, then its indexes       before: the old segments count; after: the new one does
    2  old files -> .deleted
    3  .log.swap -> .log, then its indexes
    4  .deleted removed

The directory is synced after each of 1 to 3. `partition_tidying` goes on from wherever a stop was. Readers that have a
range of an old file pinned go on with it; all others find the new segment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from struct import pack
from typing import TYPE_CHECKING

from kavka.core.producer_state import ProducerEntry
from kavka.storage.checkpoint.files import read_file
from kavka.storage.failures import CorruptFile
from kavka.storage.log.crash_leftovers import CLEANED_SUFFIX, SWAP_SUFFIX
from kavka.storage.log.producer_snapshot import decode_snapshot, snapshot_name
from kavka.storage.log.truncation import TruncatingLog
from kavka.storage.segment.segment import DELETED_SUFFIX, Segment

if TYPE_CHECKING:  # a broker without compacted logs does not pay for the modules
    from kavka.storage.compaction.cleanable_log import Dirtiness
    from kavka.storage.log.cleaned_segment import CleanedSegment

logger = logging.getLogger(__name__)


class CompactingLog(TruncatingLog):
    """A log that can be compacted."""

    async def dirtiness(self, last_stable_offset: int) -> Dirtiness:
        """Measure what a pass would clean below `last_stable_offset`, and how urgent that is."""
        from kavka.storage.compaction.cleanable_log import first_dirty, measure_dirtiness

        start = first_dirty(self.cleaner_offset, self.log_start_offset, self._end_offset)
        if self.config.has_max_compaction_lag:
            await self._learn_first_timestamps(start)
        return measure_dirtiness(
            self._segments,
            self.config,
            first_dirty_offset=start,
            last_stable_offset=last_stable_offset,
            now_ms=self.directory.clock.now_ms(),
        )

    async def _learn_first_timestamps(self, first_dirty_offset: int) -> None:
        """Read the first batch of dirty segments that were loaded closed."""
        from kavka.storage.compaction.cleanable_log import dirty_segments

        for segment in dirty_segments(self._segments, first_dirty_offset):
            if segment.size and segment.first_timestamp < 0 and not segment.data.is_discarded:
                file = segment.data.pin()
                try:
                    await self.directory.disk.run(file.read_at, 1, 0)
                    segment.first_timestamp = segment.outlines(0)[0].max_timestamp
                finally:
                    segment.data.unpin()

    async def last_of_producers(self, end_offset: int) -> tuple[bytes, dict[int, int]]:
        """Return the last offsets of producers' last batches (int64, ascending), and the epochs of who has none.

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
        path = self._files.path_of(snapshot_name(offset))
        content = await self.directory.disk.run(read_file, self.directory.disk, path)
        try:
            return [] if content is None else list(decode_snapshot(content))
        except CorruptFile as error:
            logger.warning("ignored a producer snapshot reason=%s", error)
            return []

    def new_cleaned_segment(self, old: Sequence[Segment], end_offset: int) -> CleanedSegment:
        """Return an empty segment that is to replace the run `old`, which ends at `end_offset`."""
        from kavka.storage.log.cleaned_segment import CleanedSegment

        interval = self.config.index_interval_bytes
        return CleanedSegment(
            self._files, old[0].base_offset, end_offset, old[-1].created_ms, interval
        )

    @property
    def truncation_count(self) -> int:
        """Return the number of truncations: offsets that were read before may have other records since."""
        return self._truncations

    def is_untruncated(self, truncation_count: int) -> bool:
        """Return whether the log is open, was not truncated since `cuts` was read, and is not being truncated now."""
        return (
            not self._is_closed
            and not self._is_truncating
            and truncation_count == self._truncations
        )

    async def replace_segments(
        self, old: Sequence[Segment], cleaned: CleanedSegment, truncation_count: int
    ) -> bool:
        """Put a finished segment in the place of the run `old`; false when the log is not what it was at `cuts`.

        Who stops waiting does not stop the work: it goes on in the directory's background. Raise LogDirectoryFailed.
        """
        work = asyncio.get_running_loop().create_task(self._replace(old, cleaned, truncation_count))
        self.directory.spawn(_finished(work))
        return await asyncio.shield(work)

    async def _replace(
        self, old: Sequence[Segment], cleaned: CleanedSegment, truncation_count: int
    ) -> bool:
        try:
            async with self._exclusively(), self._names_lock:
                return await self._swap(old, cleaned, truncation_count)
        finally:
            cleaned.release()

    async def _swap(
        self, old: Sequence[Segment], cleaned: CleanedSegment, truncation_count: int
    ) -> bool:
        self.directory.check()
        disk, files, new = self.directory.disk, self._files, cleaned.segment
        if truncation_count != self._truncations or not self._has_segments(old):
            await cleaned.discard()
            return False
        await disk.run(files.rename_all, _renamed(new, CLEANED_SUFFIX, SWAP_SUFFIX))
        await disk.run(files.sync)
        first = self._segments.index(old[0])
        self._segments[first : first + len(old)] = [new]
        self._base_offsets[first : first + len(old)] = [new.base_offset]
        self.replacements += 1
        retired = [data.retire(DELETED_SUFFIX) for segment in old for data in segment.files]
        deleted = await disk.run(files.rename_all, retired)
        await disk.run(files.sync)
        await disk.run(files.rename_all, _renamed(new, SWAP_SUFFIX, ""))
        await disk.run(files.sync)
        snapshots = [snapshot_name(s.base_offset) for s in old[1:]]
        await disk.run(files.remove_all, [*deleted, *snapshots])
        return True

    def _has_segments(self, old: Sequence[Segment]) -> bool:
        """Return whether the run of segments is still in the log, and not its end."""
        if self._is_closed or old[0] not in self._segments or self._active in old:
            return False
        first = self._segments.index(old[0])
        return all(a is b for a, b in zip(self._segments[first:], old, strict=False)) and (
            first + len(old) < len(self._segments)
        )


async def _finished(work: asyncio.Task[bool]) -> None:
    await work


def _renamed(segment: Segment, suffix: str, new_suffix: str) -> list[tuple[str, str]]:
    """Give the files of a segment another suffix; return the old and the new names."""
    renames = []
    for data in segment.files:
        old = data.name
        data.name = old.removesuffix(suffix) + new_suffix
        renames.append((old, data.name))
    return renames
