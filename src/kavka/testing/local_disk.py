"""The disk of a broker in a local cluster: it can be full, and it forgets what is open when its broker dies."""

from __future__ import annotations

import errno
import os
from weakref import WeakSet

from kavka.io import Buffer
from kavka.storage.disk.os_disk import OsDisk, OsFile, OsLock


class _File(OsFile):
    """A file that its disk can find."""

    __slots__ = ("__weakref__", "_disk")

    def __init__(self, fd: int, disk: LocalDisk) -> None:
        super().__init__(fd)
        self._disk = disk

    def write_at(self, data: Buffer, position: int) -> None:
        self._disk.require_space()
        super().write_at(data, position)

    def truncate(self, size: int) -> None:
        if self._disk.is_full and size > self.size():
            self._disk.require_space()
        super().truncate(size)


class LocalDisk(OsDisk):
    """Remembers what is open and locked, which the system closes when a process dies."""

    def __init__(self) -> None:
        """Start with space left."""
        super().__init__(4)
        self.is_full = False
        """No write succeeds: ENOSPC. What is there can be read, removed and cut."""
        self.was_full = False
        """Perhaps a log directory was given up."""
        self._locks: list[OsLock] = []
        self._files: WeakSet[_File] = WeakSet()

    def require_space(self) -> None:
        """Raise OSError (ENOSPC) while the disk is full."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, path: str, *, create: bool = False, private: bool = False) -> OsFile:
        """See `io.Disk`."""
        if create and self.is_full and not os.path.exists(path):
            self.require_space()
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        file = _File(os.open(path, flags, 0o600 if private else 0o666), self)
        self._files.add(file)
        return file

    def make_directories(self, path: str) -> None:
        """See `io.Disk`."""
        if self.is_full and not os.path.isdir(path):
            self.require_space()
        super().make_directories(path)

    def lock(self, path: str) -> OsLock:
        """See `io.Disk`."""
        lock = super().lock(path)
        self._locks.append(lock)
        return lock

    def die(self) -> None:
        """Close files and release locks, as the end of a process does."""
        for file in list(self._files):
            file.close()
        for lock in self._locks:
            lock.release()
