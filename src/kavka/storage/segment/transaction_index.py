"""`.txnindex`: the aborted transactions with markers in a segment (34 bytes each, KIP-98).

The file exists only once there is an entry. Entries are in the order of their markers.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from kavka.storage.disk.partition_directory import DataFile, PartitionDirectory
from kavka.storage.failures import CorruptFile

_ENTRY = Struct(">hqqqq")
_VERSION = 0
_BLOCK_ENTRIES = 128


class AbortedTransaction(NamedTuple):
    """A transaction that ended with an ABORT marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of one segment."""

    __slots__ = ("_size", "data")

    def __init__(self, directory: PartitionDirectory, name: str) -> None:
        """Refer to the file `name`, which need not exist."""
        self.data = DataFile(directory, name)
        self._size = 0

    @property
    def is_empty(self) -> bool:
        """Return whether no transaction was aborted in this segment."""
        return self._size == 0

    def load(self) -> None:
        """Read and check the file. Raise CorruptFile when an entry breaks the format."""
        if self.data.exists():
            self._size = self.data.file().size()
            self.read()

    def append(self, aborted: AbortedTransaction) -> None:
        """Add a transaction; its marker comes after all that are there."""
        self.data.file().write_at(_ENTRY.pack(_VERSION, *aborted), self._size)
        self._size += _ENTRY.size

    def read(self) -> list[AbortedTransaction]:
        """Return all entries. Raise CorruptFile when one breaks the format."""
        if self._size == 0:
            return []
        if self._size % _ENTRY.size:
            raise CorruptFile(
                f"{self.data.path} has {self._size} bytes, not whole entries of {_ENTRY.size}"
            )
        return self._entries(0, self._size // _ENTRY.size)

    def _entries(self, first: int, count: int) -> list[AbortedTransaction]:
        size = count * _ENTRY.size
        content = self.data.file().read_at(size, first * _ENTRY.size)
        if len(content) != size:
            raise CorruptFile(f"{self.data.path} is shorter than its {self._size} bytes")
        return [self._check(entry) for entry in _ENTRY.iter_unpack(content)]

    def _check(self, entry: tuple[int, int, int, int, int]) -> AbortedTransaction:
        version, *rest = entry
        aborted = AbortedTransaction(*rest)
        if version != _VERSION or not 0 <= aborted.first_offset <= aborted.last_offset:
            raise CorruptFile(f"{self.data.path} has the entry {entry}")
        return aborted

    def collect(self, offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return those that touch the offsets from `offset` below `end_offset`, and whether they are all.

        False means that later segments may hold more of them.
        """
        found: list[AbortedTransaction] = []
        entries = self._size // _ENTRY.size
        index = self._count_below(offset)
        while index < entries:
            for aborted in self._entries(index, min(_BLOCK_ENTRIES, entries - index)):
                if aborted.first_offset < end_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return found, True
            index += _BLOCK_ENTRIES
        return found, False

    def _count_below(self, offset: int) -> int:
        """Return how many transactions have their marker below `offset`, by bisection."""
        low, high = 0, self._size // _ENTRY.size
        while low < high:
            middle = (low + high) // 2
            if self._entries(middle, 1)[0].last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def truncate(self, offset: int) -> None:
        """Drop the transactions with a marker at or above `offset`."""
        self._resize(self._count_below(offset) * _ENTRY.size)

    def clear(self) -> None:
        """Drop all entries, also those that cannot be read."""
        self._size = 0
        if self.data.exists():
            self.data.file().truncate(0)

    def _resize(self, size: int) -> None:
        if size != self._size:
            self.data.file().truncate(size)
            self._size = size
