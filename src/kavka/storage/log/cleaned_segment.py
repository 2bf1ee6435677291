"""A segment that the cleaner is writing: its files end in `.cleaned`, and are not read yet."""

from __future__ import annotations

from kavka.io import Buffer, File
from kavka.storage.disk.partition_directory import DataFile, PartitionDirectory
from kavka.storage.log.crash_leftovers import CLEANED_SUFFIX
from kavka.storage.segment.segment import Segment
from kavka.storage.segment.transaction_index import AbortedTransaction
from kavka.wire.records import kernel
from kavka.wire.records.header import read_header


class CleanedSegment:
    """The retained batches of a run of segments.

    Call `write` in order, then `finish`, then pass it to the log; or `discard`.
    """

    def __init__(
        self,
        files: PartitionDirectory,
        base_offset: int,
        end_offset: int,
        created_ms: int,
        index_interval_bytes: int,
    ) -> None:
        """Stand for the offsets from `base_offset` up to and without `end_offset`. No file is made yet."""
        self.segment = Segment(files, base_offset, created_ms)
        for data in self.segment.files:
            data.name += CLEANED_SUFFIX
        self._files = files
        self._end_offset = end_offset
        self._interval = index_interval_bytes
        self._pinned: list[DataFile] = []

    async def create(self) -> None:
        """Make the log file, after removing what an earlier pass may have left."""
        disk = self._files.disk
        names = [data.name for data in self.segment.files]
        await disk.run(self._files.remove_all, names)
        self._pin(self.segment.data)

    def _pin(self, data: DataFile) -> File:
        """Open a file and keep it open until it has its final name."""
        file = data.pin()
        self._pinned.append(data)
        return file

    async def write(self, content: Buffer, aborted: list[AbortedTransaction]) -> None:
        """Append whole batches, and the aborted transactions with markers among them."""
        segment = self.segment
        disk, file = self._files.disk, segment.data.file()
        start, base_offset = segment.size, segment.base_offset
        entries, segment.unindexed_bytes, largest, largest_offset, last_offset = kernel.outline(
            content,
            self._interval,
            segment.unindexed_bytes,
            segment.max_timestamp,
            segment.max_timestamp_offset,
        )
        if content:
            await disk.run(file.write_at, content, start)
            if start == 0:
                segment.first_timestamp = read_header(content).max_timestamp
            segment.size = segment.reserved_size = start + len(content)
            segment.next_offset = last_offset + 1
            segment.max_timestamp, segment.max_timestamp_offset = largest, largest_offset
        for position, offset, timestamp, timestamp_offset in entries:
            segment.offset_index.append(offset - base_offset, start + position)
            segment.time_index.append(timestamp, timestamp_offset - base_offset)
        if segment.are_indexes_due:
            await segment.write_indexes_in_pool(disk)
        if aborted and segment.transaction_index.is_empty:
            self._pin(segment.transaction_index.data)
        for transaction in aborted:
            await disk.run(segment.transaction_index.append, transaction)

    async def finish(self) -> None:
        """Complete the files and bring them to the medium. They stay open."""
        segment, disk = self.segment, self._files.disk
        segment.next_offset = self._end_offset
        segment.note_largest_timestamp()
        for data in segment.files[1:3]:
            self._pin(data)
        await segment.close_for_append_in_pool(disk)
        for data in self._pinned:
            await disk.run(data.file().sync)

    def release(self) -> None:
        """Release the files, which are closed when they are not used."""
        while self._pinned:
            self._pinned.pop().unpin()

    async def discard(self) -> None:
        """Remove the files: the pass was given up."""
        self.release()
        self.segment.close()
        names = [data.name for data in self.segment.files]
        await self._files.disk.run(self._files.remove_all, names)
