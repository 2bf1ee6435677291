"""The files of one partition's directory, opened when needed and few at a time.

A broker of 10,000 partitions must not hold a descriptor for every segment and index. So a `DataFile` opens
itself on first use, and `OpenFiles` closes those that were not used lately. A pinned file stays open.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kavka.io import Disk, File


class OpenFiles:
    """The open data files of a log directory, as a clock with a second chance (Corbató 1968)."""

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` files open, besides those that are pinned; it may change."""
        assert limit > 0
        self.limit = limit
        self._files: deque[DataFile] = deque()

    def __len__(self) -> int:
        """Return how many files are known to be open."""
        return len(self._files)

    def add(self, file: DataFile) -> None:
        """Take a file that was just opened, and close others when there are too many."""
        self._files.append(file)
        if len(self._files) > self.limit:
            self._evict()

    def close_all(self) -> None:
        """Close all that are not pinned."""
        for file in self._files:
            if not file.pins:
                file.close()
        self._files.clear()

    def _evict(self) -> None:
        """Go once around at most; a file that was used since the last round gets another one."""
        for _ in range(2 * len(self._files)):
            if len(self._files) <= self.limit:
                return
            file = self._files.popleft()
            if not file.is_open:
                continue
            if file.pins or file.was_used:
                file.was_used = False
                self._files.append(file)
            else:
                file.close()


class PartitionDirectory:
    """The directory of a partition's files. The path changes when the partition is deleted: names are relative.

    One thread at a time uses the data files of one `OpenFiles`: the loop, or the pool while a log is loaded.
    """

    __slots__ = ("disk", "is_being_renamed", "open_files", "path")

    def __init__(self, disk: Disk, path: str, open_files: OpenFiles) -> None:
        """Refer to the directory `path`, which need not exist yet."""
        self.disk = disk
        self.path = path
        self.open_files = open_files
        self.is_being_renamed = False
        """True while the directory is being renamed: `path` may be the old name, and no file may be opened."""

    def path_of(self, name: str) -> str:
        """Return the path of the file `name`."""
        return f"{self.path}/{name}"

    def rename_all(self, renames: Iterable[tuple[str, str]]) -> list[str]:
        """Rename files, as far as they exist; return the new names. It blocks."""
        done = []
        for old, new in renames:
            try:
                self.disk.rename(self.path_of(old), self.path_of(new))
            except FileNotFoundError:
                continue
            done.append(new)
        return done

    def sync(self) -> None:
        """Make all names in the directory durable. It blocks."""
        self.disk.sync_directory(self.path)

    def remove_all(self, names: Iterable[str]) -> None:
        """Unlink those of `names` that are there."""
        for name in names:
            self.remove_if_there(name)

    def remove_for_good(self, names: Iterable[str]) -> bool:
        """Unlink those of `names` that are there; False when they were perhaps looked for by the directory's old path.

        It runs in the pool, where a rename may come in between.
        """
        path = self.path
        self.remove_all(names)
        return path == self.path and not self.is_being_renamed

    def remove_if_there(self, name: str) -> bool:
        """Unlink `name`; False when there is no such file."""
        try:
            self.disk.remove(self.path_of(name))
        except FileNotFoundError:
            return False
        return True


class DataFile:
    """A segment's log or index file, opened on first use."""

    __slots__ = ("_directory", "_file", "is_discarded", "name", "pins", "was_used")

    def __init__(self, directory: PartitionDirectory, name: str) -> None:
        """Refer to `name` in `directory`."""
        self._directory = directory
        self._file: File | None = None
        self.is_discarded = False
        self.name = name
        self.pins = 0
        self.was_used = False

    @property
    def path(self) -> str:
        """Return the current path of the file."""
        return self._directory.path_of(self.name)

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self._file is not None or self._directory.disk.exists(self.path)

    @property
    def is_directory_being_renamed(self) -> bool:
        """Return whether the file must not be opened now."""
        return self._directory.is_being_renamed

    @property
    def is_open(self) -> bool:
        """Return whether a descriptor is held."""
        return self._file is not None

    def file(self) -> File:
        """Return the open file, made if it is missing. Call it for each use: the file may close in between.

        Raise SegmentDeleted when it was discarded, OSError when it cannot be opened.
        """
        self.was_used = True
        file = self._file
        if file is None:
            if self.is_discarded:
                raise SegmentDeleted(self.name)
            assert not self._directory.is_being_renamed, f"{self.path} is opened during a rename"
            file = self._directory.disk.open(self.path, create=True)
            self.adopt(file)
        return file

    def adopt(self, file: File) -> None:
        """Take the open file, unless there is one already."""
        assert not self.is_discarded, f"{self.name} is used after its end"
        if self._file is not None:
            file.close()
            return
        self._file = file
        self._directory.open_files.add(self)

    def pin(self) -> File:
        """Return the open file and keep it open until `unpin`."""
        self.pins += 1
        try:
            return self.file()
        except (OSError, SegmentDeleted):
            self.pins -= 1
            raise

    def unpin(self) -> None:
        """Release one `pin`; a discarded file closes with the last one."""
        self.pins -= 1
        assert self.pins >= 0
        if self.is_discarded and self.pins == 0:
            self.close()

    def close(self) -> None:
        """Release the descriptor; the next use opens the file again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def rename(self, name: str) -> None:
        """Move the file within its directory; an open descriptor stays good."""
        old = self.path
        self.name = name
        self._directory.disk.rename(old, self.path)

    def retire(self, suffix: str) -> tuple[str, str]:
        """Close permanently, and take a new name; the caller renames the file from the one to the other."""
        self.discard()
        old = self.name
        self.name += suffix
        return old, self.name

    def discard(self) -> None:
        """Close permanently, as soon as it is not pinned."""
        self.is_discarded = True
        if self.pins == 0:
            self.close()


class SegmentDeleted(Exception):
    """Raised by the use of a file that was discarded: its segment left the log, or the log was closed."""


class NotCached(Exception):
    """Raised by a read that may not block: these bytes are not in the page cache."""

    def __init__(self, data: DataFile, length: int, position: int) -> None:
        """Name the bytes that must be read in the pool first."""
        super().__init__(data.name, length, position)
        self.data = data
        self.length = length
        self.position = position


def read_from(data: DataFile, length: int, position: int, may_block: bool) -> bytes:
    """Read, or raise NotCached when the bytes are not in memory and the caller may not block."""
    file = data.file()
    if not may_block and not file.is_cached(length, position):
        raise NotCached(data, length, position)
    return file.read_at(length, position)
