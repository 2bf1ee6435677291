"""`.index`: from an offset to a byte position near it (8 bytes: relative offset, position).

An entry has the *last* offset of the batch that starts at its position, as in Kafka: the batch of a smaller
offset in the same batch is found from the entry before.
"""

from __future__ import annotations

from struct import Struct

from kavka.storage.disk.partition_directory import PartitionDirectory
from kavka.storage.failures import CorruptFile
from kavka.storage.segment.index_file import IndexFile, SparseIndex

ENTRY_BYTES = 8
_ENTRY = Struct(">ii")
_KEY = Struct(">i")


class OffsetIndex(SparseIndex):
    """The sparse offset index of one segment; offsets are relative to the segment's base."""

    __slots__ = ("last_offset", "last_position")

    def __init__(self, directory: PartitionDirectory, name: str) -> None:
        """Refer to the file `name`; empty until `load`."""
        super().__init__(IndexFile(directory, name, ENTRY_BYTES), _KEY, 0)
        self.last_offset = 0
        self.last_position = 0

    def load(self) -> None:
        """Read what is there. Raise CorruptFile where Kafka's sanity check would complain too."""
        self.storage.load()
        self._refresh()
        if self.entries and self.last_offset <= 0 and self.entries > 1:
            raise CorruptFile(f"{self.storage.data.path} ends with offset {self.last_offset}")
        if self.last_offset < 0 or self.last_position < 0:
            raise CorruptFile(f"{self.storage.data.path} ends with a negative offset or position")

    def append(self, offset: int, position: int) -> None:
        """Add the batch at `position` with the last offset `offset`; both must grow."""
        assert offset > self.last_offset or self.entries == 0, (offset, self.last_offset)
        self.storage.append(_ENTRY.pack(offset, position))
        self.last_offset, self.last_position = offset, position

    def position_before(self, offset: int, *, may_block: bool = True) -> int:
        """Return a position at or before the batch that holds `offset`. Raise NotCached when it would block."""
        if self.entries == 0:
            return 0
        if offset >= self.last_offset:
            return self.last_position
        count = self.storage.count_up_to(_KEY, 0, offset, may_block=may_block)
        return 0 if count == 0 else self.entry(count - 1, may_block=may_block)[1]

    def offset_after(self, position: int) -> int | None:
        """Return an offset above those of all batches that begin before `position`; None when no entry has it."""
        count = self.storage.count_up_to(_KEY, _KEY.size, position - 1)
        return None if count == self.entries else self.entry(count)[0]

    def entry(self, index: int, *, may_block: bool = True) -> tuple[int, int]:
        """Return the (offset, position) of one entry."""
        offset, position = _ENTRY.unpack(self.storage.entry(index, may_block=may_block))
        return offset, position

    def _refresh(self) -> None:
        entries = self.entries
        self.last_offset, self.last_position = self.entry(entries - 1) if entries else (0, 0)
