"""The result of a read: a range of a file to send, never bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kavka.io import Buffer, Disk, File
from kavka.storage.disk.partition_directory import DataFile, NotCached

T = TypeVar("T")

_LOAD_BYTES = 1 << 20
_LOAD_ATTEMPTS = 16


class LogRange:
    """Bytes of a segment's log file, which stays open until `release` (`io.FileRange`)."""

    __slots__ = ("_data", "file", "length", "position")

    def __init__(self, data: DataFile, position: int, length: int) -> None:
        """Pin the file."""
        self.file: File = data.pin()
        self._data: DataFile | None = data
        self.position = position
        self.length = length

    @property
    def is_outdated(self) -> bool:
        """Return whether the segment was removed: the bytes are valid, but not part of the log's current state."""
        assert self._data is not None, "a range that was released"
        return self._data.is_discarded

    def is_of(self, data: DataFile) -> bool:
        """Return whether the bytes are of this file."""
        return self._data is data

    def release(self) -> None:
        """Release the range: it was sent or will never be. Called exactly once."""
        data, self._data = self._data, None
        assert data is not None, "a file range was released twice"
        data.unpin()


class LogRead:
    """The result of `Log.read`.

    `range` is None when there is nothing to send: the offset is at the end, or the place is not known yet because
    finding it needs the disk (then `is_cached` is false). Send when `is_cached`; else send what `await load()`
    returns. A caller that does not send the range releases it.
    """

    __slots__ = ("_find", "_is_cached", "range", "records")

    def __init__(
        self, found: LogRange | None, find: Callable[[bool], LogRange | None] | None = None
    ) -> None:
        """Take a range, or `find(may_block)`, which finds it once the disk was read."""
        self.range = found
        self.records: Buffer | None = None
        """The bytes, once `read_short` has found them in the page cache."""
        self._find = find
        self._is_cached: bool | None = None

    @property
    def length(self) -> int:
        """Return the number of bytes found."""
        return 0 if self.range is None else self.range.length

    @property
    def is_cached(self) -> bool:
        """Return whether the bytes were in the page cache at the first call, so that sending them does not block.

        All callers get the same result, also when a part of the range is read into memory meanwhile.
        """
        if self._is_cached is None:
            found = self.range
            if found is None:
                self._is_cached = self._find is None
            else:
                self._is_cached = found.file.is_cached(found.length, found.position)
        return self._is_cached

    def read_short(self) -> bool:
        """Read the bytes, which are few, if they are in the page cache; return whether they are."""
        found = self.range
        if found is None:
            return self._find is None
        if self._is_cached is None:
            try:
                self.records = found.file.read_cached(found.length, found.position)
            except OSError:
                return False  # who sends the range reports it
            self._is_cached = self.records is not None
        return self.records is not None

    async def load(self, disk: Disk) -> LogRead:
        """Load everything into the page cache, in the pool, and return the complete read, perhaps another object.

        Raise what `Log.read` raises; an OSError when the disk fails.
        """
        read = self if self._find is None else LogRead(await read_cached(disk, self._find))
        found = read.range
        if found is None:
            return read
        try:
            await _load_range(disk, found)
        except BaseException:
            found.release()
            raise
        read._is_cached = True
        return read


async def read_cached(disk: Disk, find: Callable[[bool], T]) -> T:
    """Return `find(may_block)`, after reading bytes that are not cached into memory, in the pool."""
    for _ in range(_LOAD_ATTEMPTS):
        try:
            return find(False)
        except NotCached as cold:
            await _load_bytes(disk, cold.data, cold.position, cold.length)
    # A file system without this information would repeat this without limit.
    return find(True)


async def _load_bytes(disk: Disk, data: DataFile, position: int, length: int) -> None:
    if data.is_discarded:
        return  # the segment is gone; finding the offset again will say so
    file = data.pin()
    try:
        await disk.run(file.read_at, length, position)
    finally:
        data.unpin()


async def _load_range(disk: Disk, found: LogRange) -> None:
    end = found.position + found.length
    for position in range(found.position, end, _LOAD_BYTES):
        length = min(_LOAD_BYTES, end - position)
        if not found.file.is_cached(length, position):
            await disk.run(found.file.read_at, length, position)
