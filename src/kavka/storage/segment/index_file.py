"""A file of entries of one width, in ascending order of their keys: what the sparse indexes are made of.

    entries   0 ........................ stored | ............ entries
              in the file, found by reading it  | in `_pending`, bounded

Entries are collected in memory and written with pwrite, some at once (a store into a map on a full disk would
kill the process). What is pending at a crash belongs to the unflushed tail; recovery rebuilds its indexes.
The file always ends with its last entry: Kafka preallocates while a segment is active and trims when it is
closed; its tools and brokers read the file without the zeros as well, and the checks of its dump tool, which the
zeros of a preallocated time index fail, pass.
"""

from __future__ import annotations

from struct import Struct

from kavka.io import Disk
from kavka.storage.disk.partition_directory import DataFile, PartitionDirectory, read_from
from kavka.storage.failures import CorruptFile

_PENDING_BYTES = 2048
_BLOCK_BYTES = 4096


class IndexFile:
    """The entries of one index file."""

    __slots__ = ("_entry_bytes", "_pending", "_stored", "data", "entries")

    def __init__(self, directory: PartitionDirectory, name: str, entry_bytes: int) -> None:
        """Refer to an index file without looking at it; it counts as empty until `load`."""
        self.data = DataFile(directory, name)
        self._entry_bytes = entry_bytes
        self._stored = 0
        self._pending = bytearray()
        self.entries = 0
        """Number of entries, written or not. Invariant: those stored and those pending."""

    def load(self) -> None:
        """Read the number of entries from the file's size. Raise CorruptFile when it is not a whole one."""
        size = self.data.file().size()
        if size % self._entry_bytes:
            raise CorruptFile(
                f"{self.data.path} has {size} bytes, not whole entries of {self._entry_bytes}"
            )
        self._stored = size // self._entry_bytes
        self.entries = self._stored + len(self._pending) // self._entry_bytes

    @property
    def unwritten(self) -> int:
        """The number of entries that are in memory only."""
        return len(self._pending) // self._entry_bytes

    @property
    def is_write_due(self) -> bool:
        """True if so many entries are pending that they are worth a call in the pool."""
        return len(self._pending) >= _PENDING_BYTES

    def append(self, entry: bytes) -> None:
        """Add an entry, in memory."""
        self._pending += entry
        self.entries += 1

    def write(self) -> None:
        """Write the pending entries to the file, creating it when it is missing."""
        if self._pending:
            self.data.file().write_at(self._pending, self._stored * self._entry_bytes)
            self._note_written(len(self._pending))
        elif not self.data.exists():
            self.data.file()

    async def write_in_pool(self, disk: Disk) -> None:
        """Do what `write` does without blocking the loop. The caller must not append meanwhile; reads continue.

        Nothing is written when the segment was deleted while this waited for the disk.
        """
        if self.data.is_discarded:
            return
        file = self.data.pin()
        try:
            entries = bytes(self._pending)
            await disk.run(file.write_at, entries, self._stored * self._entry_bytes)
            self._note_written(len(entries))
        finally:
            self.data.unpin()

    def _note_written(self, length: int) -> None:
        self._stored += length // self._entry_bytes
        del self._pending[:length]

    def entry(self, index: int, *, may_block: bool = True) -> bytes:
        """Return the bytes of one entry. Raise NotCached when that would block and may not."""
        width = self._entry_bytes
        if index >= self._stored:
            start = (index - self._stored) * width
            return bytes(self._pending[start : start + width])
        return self._read(index, 1, may_block)

    def _read(self, index: int, count: int, may_block: bool) -> bytes:
        width = self._entry_bytes
        entries = read_from(self.data, count * width, index * width, may_block)
        if len(entries) != count * width:
            raise CorruptFile(
                f"{self.data.path} ends before entry {index + count} of {self._stored}"
            )
        return entries

    def count_up_to(self, key: Struct, skip: int, target: int, *, may_block: bool = True) -> int:
        """Return how many entries have a key <= `target`. The key lies `skip` bytes into an entry."""
        width = self._entry_bytes
        if self._pending and key.unpack_from(self._pending, skip)[0] <= target:
            return self._stored + _count(self._pending, width, key, skip, target)
        low, high = 0, self._stored
        while (high - low) * width > _BLOCK_BYTES:
            middle = (low + high) // 2
            if key.unpack_from(self._read(middle, 1, may_block), skip)[0] <= target:
                low = middle
            else:
                high = middle
        if low == high:
            return low
        return low + _count(self._read(low, high - low, may_block), width, key, skip, target)

    def clear(self) -> None:
        """Drop all entries and all other content of the file."""
        self._pending.clear()
        self._stored = self.entries = 0
        if self.data.exists():
            self.data.file().truncate(0)

    def truncate(self, entries: int) -> None:
        """Keep the first `entries` entries only."""
        self.entries = min(self.entries, entries)
        if entries > self._stored:
            del self._pending[(entries - self._stored) * self._entry_bytes :]
            return
        self._pending.clear()
        self._stored = entries
        self.data.file().truncate(entries * self._entry_bytes)


class SparseIndex:
    """Base of the offset index and the time index: a file of entries with increasing offsets."""

    __slots__ = ("_key", "_skip", "storage")

    last_offset: int

    def __init__(self, storage: IndexFile, key: Struct, skip: int) -> None:
        """Keep entries in `storage`; the offset is a `key` that lies `skip` bytes into each."""
        self.storage = storage
        self._key = key
        self._skip = skip

    @property
    def entries(self) -> int:
        """Return the number of entries."""
        return self.storage.entries

    def clear(self) -> None:
        """Drop all entries and the content of the file."""
        self.storage.clear()
        self._refresh()

    def truncate(self, offset: int) -> None:
        """Drop all entries at or above `offset`."""
        if self.entries and self.last_offset >= offset:
            self.storage.truncate(self.storage.count_up_to(self._key, self._skip, offset - 1))
            self._refresh()

    def _refresh(self) -> None:
        """Reload the last entry."""
        raise NotImplementedError


def _count(entries: bytes | bytearray, width: int, key: Struct, skip: int, target: int) -> int:
    """Return how many of the packed `entries` have a key <= `target`, by bisection."""
    low, high = 0, len(entries) // width
    while low < high:
        middle = (low + high) // 2
        if key.unpack_from(entries, middle * width + skip)[0] <= target:
            low = middle + 1
        else:
            high = middle
    return low
