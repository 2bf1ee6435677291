"""`.timeindex`: from a timestamp to the batch that reached it (12 bytes: timestamp, relative offset).

Timestamps grow strictly: an entry says "up to and with this offset no record is later than this". The last entry
of a closed segment is its largest timestamp.
"""

from __future__ import annotations

from struct import Struct

from kavka.storage.disk.partition_directory import PartitionDirectory
from kavka.storage.failures import CorruptFile
from kavka.storage.segment.index_file import IndexFile, SparseIndex

ENTRY_BYTES = 12
NO_TIMESTAMP = -1
_ENTRY = Struct(">qi")
_TIMESTAMP = Struct(">q")
_OFFSET = Struct(">i")


class TimeIndex(SparseIndex):
    """The sparse time index of one segment; offsets are relative to the segment's base."""

    __slots__ = ("last_offset", "last_timestamp")

    def __init__(self, directory: PartitionDirectory, name: str) -> None:
        """Refer to the file `name`; empty until `load`."""
        super().__init__(IndexFile(directory, name, ENTRY_BYTES), _OFFSET, 8)
        self.last_timestamp = NO_TIMESTAMP
        self.last_offset = 0

    def load(self) -> None:
        """Read what is there. Raise CorruptFile where Kafka's sanity check would complain too."""
        self.storage.load()
        self._refresh()
        if not self.entries:
            return
        if self.last_timestamp < self.entry(0)[0] or self.last_offset < 0:
            raise CorruptFile(
                f"{self.storage.data.path} ends with timestamp {self.last_timestamp} of offset "
                f"{self.last_offset}, after starting with {self.entry(0)[0]}"
            )

    def append(self, timestamp: int, offset: int) -> None:
        """Add the largest timestamp so far and the offset that has it; one that is not larger is left out."""
        if timestamp > self.last_timestamp:
            self.storage.append(_ENTRY.pack(timestamp, offset))
            self.last_timestamp, self.last_offset = timestamp, offset

    def offset_before(self, timestamp: int, *, may_block: bool = True) -> int:
        """Return the offset of the last entry with a timestamp <= `timestamp`, or 0.

        Records before that offset are not later than its timestamp.
        """
        count = self.storage.count_up_to(_TIMESTAMP, 0, timestamp, may_block=may_block)
        return 0 if count == 0 else self.entry(count - 1, may_block=may_block)[1]

    def entry(self, index: int, *, may_block: bool = True) -> tuple[int, int]:
        """Return the (timestamp, offset) of one entry."""
        timestamp, offset = _ENTRY.unpack(self.storage.entry(index, may_block=may_block))
        return timestamp, offset

    def _refresh(self) -> None:
        entries = self.entries
        last = self.entry(entries - 1) if entries else (NO_TIMESTAMP, 0)
        self.last_timestamp, self.last_offset = last
