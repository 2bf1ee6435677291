"""A segment: one `.log` file with its indexes, and the memory of its newest batches.

    .log  |batch|batch|batch| .... |batch|batch|batch|
          0        found by index       recent_floor   size (bytes)
          base_offset                                  next_offset

Batches above `recent_floor` are found in memory, which is where tailing consumers read; those below through the offset
index and a short scan of headers. The class is synchronous: a caller that must not block passes `may_block=False` and
gets `NotCached`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from kavka.io import Clock, Disk
from kavka.storage.disk.partition_directory import DataFile, PartitionDirectory, read_from
from kavka.storage.failures import CorruptFile
from kavka.storage.log_config import LogConfig
from kavka.storage.segment import offset_index, time_index
from kavka.storage.segment.offset_index import OffsetIndex
from kavka.storage.segment.time_index import NO_TIMESTAMP, TimeIndex
from kavka.storage.segment.transaction_index import TransactionIndex
from kavka.wire.records.header import HEADER_SIZE, LENGTH_END, BatchHeader

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"

_MAX_RELATIVE_OFFSET = 2**31 - 1
_RECENT_BATCHES = 256
_SCAN_BYTES = 8192
# Base offset, batch length, last offset delta, largest timestamp: all that finding a batch needs.
_OUTLINE = Struct(">qi11xi8xq")


class BatchOutline(NamedTuple):
    """Position, size, offsets and timestamp of a batch, as a scan finds them."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def segment_name(base_offset: int) -> str:
    """Return the file name without suffix: the offset in 20 digits."""
    return f"{base_offset:020d}"


class Segment:
    """The batches from `base_offset` up to and without `next_offset`."""

    __slots__ = (
        "_recent_offsets",
        "_recent_positions",
        "base_offset",
        "created_ms",
        "data",
        "first_timestamp",
        "jitter_ms",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "offset_index",
        "recent_floor",
        "reserved_size",
        "size",
        "time_index",
        "transaction_index",
        "unindexed_bytes",
    )

    def __init__(
        self, directory: PartitionDirectory, base_offset: int, created_ms: int, jitter_ms: int = 0
    ) -> None:
        """Refer to the segment's files, taken as empty until `load`."""
        name = segment_name(base_offset)
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.data = DataFile(directory, name + LOG_SUFFIX)
        self.offset_index = OffsetIndex(directory, name + INDEX_SUFFIX)
        self.time_index = TimeIndex(directory, name + TIME_INDEX_SUFFIX)
        self.transaction_index = TransactionIndex(directory, name + TRANSACTION_INDEX_SUFFIX)
        self._reset()

    def _reset(self) -> None:
        # Invariant: size <= reserved_size; bytes in between are queued and not read.
        self.size = 0
        self.reserved_size = 0
        self.next_offset = self.base_offset
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self.first_timestamp = NO_TIMESTAMP
        self.unindexed_bytes = 0
        self._forget_recent(self.base_offset)

    def _forget_recent(self, floor: int) -> None:
        # Last offset and position of the newest batches. Invariant: they are all batches at or above recent_floor.
        self._recent_offsets = array("q")
        self._recent_positions = array("q")
        self.recent_floor = floor

    # Appending

    def must_roll(
        self, config: LogConfig, size: int, last_offset: int, timestamp: int, clock: Clock
    ) -> bool:
        """Return whether a batch group of `size` bytes belongs into a new segment, by Kafka's rules."""
        if last_offset - self.base_offset > _MAX_RELATIVE_OFFSET:
            return True
        reserved = self.reserved_size
        if reserved == 0:
            return False
        # How long the segment has been open, by record time where records have one.
        first = self.first_timestamp
        waited_ms = (
            timestamp - first if first >= 0 <= timestamp else clock.now_ms() - self.created_ms
        )
        index_bytes = config.segment_index_bytes
        return (
            reserved > config.segment_bytes - size
            or waited_ms > config.segment_ms - self.jitter_ms
            or self.offset_index.storage.entries >= index_bytes // offset_index.ENTRY_BYTES
            or self.time_index.storage.entries >= index_bytes // time_index.ENTRY_BYTES - 1
        )

    def commit(
        self, position: int, headers: Sequence[BatchHeader], index_interval_bytes: int
    ) -> bool:
        """Make the batches of a buffer that now lies at `position` part of the segment: index and remember them.

        Return whether an index has a new entry, which is in memory only.
        """
        base_offset, unindexed_bytes = self.base_offset, self.unindexed_bytes
        max_timestamp, max_timestamp_offset = self.max_timestamp, self.max_timestamp_offset
        offsets, positions = self._recent_offsets, self._recent_positions
        is_indexed = False
        for header in headers:
            timestamp = header.max_timestamp
            last_offset = header.base_offset + header.last_offset_delta
            at = position + header.position
            # The cleaner leaves empty batches.
            if timestamp > max_timestamp and header.record_count:
                max_timestamp, max_timestamp_offset = timestamp, last_offset
            if at == 0:
                self.first_timestamp = timestamp
            if unindexed_bytes > index_interval_bytes:
                self.offset_index.append(last_offset - base_offset, at)
                self.time_index.append(max_timestamp, max_timestamp_offset - base_offset)
                unindexed_bytes = 0
                is_indexed = True
            unindexed_bytes += header.size
            offsets.append(last_offset)
            positions.append(at)
        self.unindexed_bytes = unindexed_bytes
        self.max_timestamp, self.max_timestamp_offset = max_timestamp, max_timestamp_offset
        while len(offsets) > _RECENT_BATCHES:
            self._forget_oldest_half()
        last = headers[-1]
        self.size = end = position + last.position + last.size
        if self.reserved_size < end:  # noqa: PLR1730  # a call costs more, for each append
            self.reserved_size = end
        self.next_offset = last.base_offset + last.last_offset_delta + 1
        return is_indexed

    def _forget_oldest_half(self) -> None:
        half = _RECENT_BATCHES // 2
        self.recent_floor = self._recent_offsets[half - 1] + 1
        del self._recent_offsets[:half]
        del self._recent_positions[:half]

    def close_for_append(self) -> None:
        """Finish the files of a segment that becomes inactive."""
        self.note_largest_timestamp()
        self.write_indexes()
        self._finish()

    async def close_for_append_in_pool(self, disk: Disk) -> None:
        """Do what `close_for_append` does without blocking the loop."""
        self.note_largest_timestamp()
        await self.write_indexes_in_pool(disk)
        self._finish()

    def _finish(self) -> None:
        self._forget_recent(self.next_offset)
        for data in self.files[1:3]:
            if not data.pins:
                data.close()

    def note_largest_timestamp(self) -> None:
        """Append the largest timestamp to the time index, as at a roll and at a clean stop."""
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def write_indexes(self) -> None:
        """Write both index files; they exist afterwards."""
        self.offset_index.storage.write()
        self.time_index.storage.write()

    @property
    def unwritten_entries(self) -> int:
        """The number of entries of the offset index, which has the most, that are in memory only."""
        return self.offset_index.storage.unwritten

    @property
    def are_indexes_due(self) -> bool:
        """True if so many index entries are in memory only that they are worth a call in the pool."""
        return self.offset_index.storage.is_write_due or self.time_index.storage.is_write_due

    async def write_indexes_in_pool(self, disk: Disk) -> None:
        """Do what `write_indexes` does without blocking the loop."""
        await self.offset_index.storage.write_in_pool(disk)
        await self.time_index.storage.write_in_pool(disk)

    # Finding

    def locate(self, offset: int, *, may_block: bool = True) -> tuple[int, int] | None:
        """Return (position, size) of the first batch that ends at or after `offset`; None when there is none.

        Raise NotCached when that would block and may not.
        """
        if offset >= self.recent_floor:
            return self._locate_recent(offset)
        start = self.offset_index.position_before(offset - self.base_offset, may_block=may_block)
        while start < self.size:
            for outline in self.outlines(start, may_block=may_block):
                if outline.last_offset >= offset:
                    return outline.position, outline.size
                start = outline.position + outline.size
        return None

    def _locate_recent(self, offset: int) -> tuple[int, int] | None:
        positions = self._recent_positions
        index = bisect_left(self._recent_offsets, offset)
        if index == len(positions):
            return None
        position = positions[index]
        following = positions[index + 1] if index + 1 < len(positions) else self.size
        return position, following - position

    def offset_bound(self, position: int) -> int:
        """Return an offset above those of all batches that begin before `position`, not far above."""
        positions = self._recent_positions
        if positions and position > positions[0]:
            return self._recent_offsets[bisect_left(positions, position) - 1] + 1
        after = self.offset_index.offset_after(position) if position < self.size else None
        if after is None:
            return min(self.next_offset, self.recent_floor)
        return self.base_offset + after

    def outlines(self, position: int, *, may_block: bool = True) -> Iterator[BatchOutline]:
        """Yield the batches that start within the next few KB from `position`, which is a batch's start; at least one.

        Raise NotCached when that would block and may not, CorruptFile when there is no batch.
        """
        block = read_from(self.data, min(_SCAN_BYTES, self.size - position), position, may_block)
        at = 0
        while at + HEADER_SIZE <= len(block):
            base_offset, length, delta, max_timestamp = _OUTLINE.unpack_from(block, at)
            size = length + LENGTH_END
            if size < HEADER_SIZE or delta < 0 or position + at + size > self.size:
                break
            yield BatchOutline(position + at, size, base_offset, base_offset + delta, max_timestamp)
            at += size
        if not at:
            raise CorruptFile(f"{self.data.path} has no batch at position {position}")

    # Loading

    def load(self, *, is_active: bool, next_base_offset: int | None = None) -> None:
        """Read the segment's state from its files. It blocks. Raise CorruptFile when they need recovery."""
        self.size = self.reserved_size = self.data.file().size()
        for index in (self.offset_index, self.time_index):
            if self.size and not index.storage.data.exists():
                raise CorruptFile(f"{index.storage.data.path} is missing")
        if self.size:
            self.offset_index.load()
            self.time_index.load()
        self.transaction_index.load()
        self.max_timestamp = self.time_index.last_timestamp
        self.max_timestamp_offset = self.base_offset + self.time_index.last_offset
        if self.offset_index.entries and self.offset_index.last_position >= self.size:
            raise CorruptFile(
                f"{self.offset_index.storage.data.path} points behind the end of the log file"
            )
        if is_active or next_base_offset is None:
            self._load_tail()
        else:
            self.next_offset = next_base_offset
            self._forget_recent(next_base_offset)
            self._close_indexes()
            self.data.close()

    def _load_tail(self) -> None:
        """Walk the batches behind the last index entry, and read the first one's time."""
        position = self.offset_index.last_position
        self.unindexed_bytes = self.size - position
        while position < self.size:
            for outline in self.outlines(position):
                self.next_offset = outline.last_offset + 1
                if outline.max_timestamp > self.max_timestamp:
                    self.max_timestamp = outline.max_timestamp
                    self.max_timestamp_offset = outline.last_offset
                position = outline.position + outline.size
        if self.size:
            self.first_timestamp = next(self.outlines(0)).max_timestamp
        self._forget_recent(self.next_offset)

    def _close_indexes(self) -> None:
        self.offset_index.storage.data.close()
        self.time_index.storage.data.close()
        self.transaction_index.data.close()

    # Cutting

    def clear_indexes(self) -> None:
        """Start over for a rebuild: the indexes become empty, the log file keeps its bytes."""
        self.offset_index.clear()
        self.time_index.clear()
        self.transaction_index.clear()
        self._reset()

    def truncate_file(self, size: int) -> None:
        """Drop the bytes of the log file from `size` on."""
        self.data.file().truncate(size)

    def truncate(self, offset: int, now_ms: int) -> int:
        """Drop the batches from the one on that holds `offset`; return how many bytes went. It blocks."""
        found = self.locate(offset)
        position = self.size if found is None else found[0]
        cut = self.size - position
        base_offset = self.base_offset
        self.offset_index.truncate(offset - base_offset)
        self.time_index.truncate(offset - base_offset)
        self.transaction_index.truncate(offset)
        self.write_indexes()
        self.truncate_file(position)
        self._reset()
        self.size = self.reserved_size = position
        if position == 0:
            self.created_ms = now_ms
        self.max_timestamp = self.time_index.last_timestamp
        self.max_timestamp_offset = base_offset + self.time_index.last_offset
        self._load_tail()
        return cut

    # Going away

    @property
    def files(self) -> tuple[DataFile, DataFile, DataFile, DataFile]:
        """Log, offset index, time index and transaction index; the last three may not exist."""
        return (
            self.data,
            self.offset_index.storage.data,
            self.time_index.storage.data,
            self.transaction_index.data,
        )

    def mark_deleted(self) -> list[str]:
        """Rename the files to the suffix with which they wait for removal, and return their names.

        Readers that have them pinned continue.
        """
        names = []
        for data in self.files:
            data.discard()
            try:
                data.rename(data.name + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            names.append(data.name)
        return names

    def close(self) -> None:
        """Release the descriptors; pinned files close with their last reader."""
        for data in self.files:
            data.discard()
