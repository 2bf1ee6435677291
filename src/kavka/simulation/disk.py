"""The disk of a node: names, files, and what a crash leaves of them.

Names are kept twice, as files are: those that programs see, and those on the medium, with the changes between
the two in a journal. Like ext4, the journal commits in order: `sync_directory` commits everything up to the last
change in that directory, and a host crash keeps an arbitrary prefix of the rest; so a file that was created may be
gone, a removed one be back, and a rename be undone. Stricter than ext4, `File.sync` says nothing about the file's
name, as POSIX has it.
"""

from __future__ import annotations

import errno
import os
import posixpath
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from kavka.io import Buffer
from kavka.simulation.inode import Inode
from kavka.simulation.process import Process

if TYPE_CHECKING:
    from kavka.simulation.loop import SimLoop

T = TypeVar("T")

Names = dict[str, "Inode | None"]
"""Every path that exists: a file, or None for a directory."""


@dataclass(slots=True)
class DiskFaults:
    """Faults of a disk; probabilities are per call. All zeros is a disk without faults."""

    write_error: float = 0.0
    sync_error: float = 0.0
    read_error: float = 0.0
    read_flip: float = 0.0
    cold: float = 0.0
    """Probability that a requested range is not in the page cache."""
    delay_s: float = 0.0005
    """The mean time of a call in the pool."""
    stall: float = 0.0
    """Probability that a write outside of the pool blocks its process."""
    stall_s: float = 0.2
    """The mean time of such a stall."""
    capacity_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of names: `old` moves to `new`; a creation has no `old`, a removal no `new`."""

    old: str | None
    new: str | None
    inode: Inode | None

    def touches(self, directory: str) -> bool:
        return _parent(self.old) == directory or _parent(self.new) == directory

    def apply(self, names: Names) -> None:
        if self.old is None:
            assert self.new is not None
            names.setdefault(self.new, self.inode)
            return
        if names.get(self.old) is not None:
            inode = names.pop(self.old)
            if self.new is not None:
                names[self.new] = inode
            return
        inside = self.old + "/"
        moved = [path for path in names if path == self.old or path.startswith(inside)]
        for path in moved:
            inode = names.pop(path)
            if self.new is not None:
                names[self.new + path[len(self.old) :]] = inode


def _parent(path: str | None) -> str | None:
    return None if path is None else path.rpartition("/")[0] or "/"


class SimDisk:
    """A file system. It outlives the processes that use it through a `ProcessDisk`."""

    def __init__(self, loop: SimLoop, source: random.Random) -> None:
        """Make an empty file system; `source` decides about faults."""
        self.faults = DiskFaults()
        self.source = source
        self.loop = loop
        self.used_bytes = 0
        self.stall: Callable[[Process, float], None] | None = None
        self.locks: dict[str, Process] = {}
        self.names: Names = {"/": None}
        self._durable: Names = {"/": None}
        self._journal: list[_Change] = []
        self._inodes = 0

    def for_process(self, process: Process) -> ProcessDisk:
        """Return the disk as `process` sees it."""
        return ProcessDisk(self, process)

    def crash(self) -> list[str]:
        """Lose power. Return what was lost, one line for each file and for the names."""
        lost = []
        kept = self.source.randrange(len(self._journal) + 1)
        for change in self._journal[:kept]:
            change.apply(self._durable)
        if kept < len(self._journal):
            lost.append(f"the last {len(self._journal) - kept} changes of names")
        self._journal.clear()
        self.names = dict(self._durable)
        for path, inode in self.names.items():
            loss = inode.crash(self.source) if inode is not None else ""
            if loss:
                lost.append(f"{path}: {loss}")
        self.locks.clear()
        self.count_used()
        return lost

    def content(self, path: str) -> bytearray | None:
        """Return the content of a file in the page cache, for checks; None when there is none."""
        inode = self.names.get(path)
        return None if inode is None else inode.cached

    def evict_cached_pages(self) -> None:
        """Evict every page from the page cache that is not dirty."""
        for inode in self.names.values():
            if inode is not None and not inode.dirty:
                inode.evict(len(inode.cached), 0)

    def count_used(self) -> None:
        """Set `used_bytes` to what the named files hold."""
        self.used_bytes = sum(
            [len(inode.cached) for inode in self.names.values() if inode is not None]
        )

    def change(self, old: str | None, new: str | None, inode: Inode | None) -> None:
        """Change names at once, and durably later."""
        change = _Change(old, new, inode)
        change.apply(self.names)
        self._journal.append(change)

    def commit_names(self, directory: str) -> None:
        """Commit the journal up to the last change in `directory`."""
        touched = [i for i, change in enumerate(self._journal) if change.touches(directory)]
        if touched:
            for change in self._journal[: touched[-1] + 1]:
                change.apply(self._durable)
            del self._journal[: touched[-1] + 1]

    def create(self, path: str) -> Inode:
        """Make an empty file at `path`."""
        self._inodes += 1
        inode = Inode(self._inodes)
        self.change(None, path, inode)
        return inode

    def fails(self, probability: float) -> bool:
        """Return whether a fault of this probability happens now."""
        return probability > 0 and self.source.random() < probability

    def pool_delay_s(self) -> float:
        """Return how long a call waits in the pool before, or after, it does its work."""
        return self.source.expovariate(2 / self.faults.delay_s) if self.faults.delay_s > 0 else 0.0


class ProcessDisk:
    """The `io.Disk` of one process."""

    def __init__(self, disk: SimDisk, process: Process) -> None:
        """Open `disk` for `process`; its locks end with it."""
        self._disk = disk
        self._process = process
        self.in_pool = False
        process.at_end.append(self._release_locks)

    def open(self, path: str, *, create: bool = False, private: bool = False) -> SimFile:
        """Open a file; with `create`, make it when it is missing. There is one user, so all files are `private`."""
        self._process.check_alive()
        path = _normal(path)
        if path in self._disk.names:
            inode = self._disk.names[path]
            if inode is None:
                raise _error(errno.EISDIR, path)
        else:
            if not create:
                raise _error(errno.ENOENT, path)
            self._check_parent(path)
            self._before_write(path)
            inode = self._disk.create(path)
        return SimFile(self, inode, path)

    def list(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        path = self._directory(path)
        inside = path.rstrip("/") + "/"
        return sorted(
            name[len(inside) :]
            for name in self._disk.names
            if name.startswith(inside) and name != inside and "/" not in name[len(inside) :]
        )

    def exists(self, path: str) -> bool:
        """Return whether the path is there."""
        self._process.check_alive()
        return _normal(path) in self._disk.names

    def is_directory(self, path: str) -> bool:
        """Return whether the path is a directory."""
        self._process.check_alive()
        return self._disk.names.get(_normal(path), _MISSING) is None

    def make_directories(self, path: str) -> None:
        """Make a directory with its parents."""
        self._process.check_alive()
        path = _normal(path)
        parent = posixpath.dirname(path)
        if parent != path and parent not in self._disk.names:
            self.make_directories(parent)
        if path not in self._disk.names:
            self._check_parent(path)
            self._before_write(path)
            self._disk.change(None, path, None)
        elif self._disk.names[path] is not None:
            raise _error(errno.EEXIST, path)

    def rename(self, old: str, new: str) -> None:
        """Move a file or a directory; a file at `new` is replaced."""
        self._process.check_alive()
        old, new = _normal(old), _normal(new)
        moving = self._existing(old)
        self._check_parent(new)
        if new == old:
            return
        if new in self._disk.names:
            there = self._disk.names[new]
            if there is None and moving is not None:
                raise _error(errno.EISDIR, new)
            if there is not None and moving is None:
                raise _error(errno.ENOTDIR, new)
            if there is None and self.list(new):
                raise _error(errno.ENOTEMPTY, new)
        self._before_write(new)
        self._disk.change(old, new, moving)
        self._disk.count_used()

    def remove(self, path: str) -> None:
        """Unlink a file; a process that has it open keeps it."""
        self._process.check_alive()
        path = _normal(path)
        if self._existing(path) is None:
            raise _error(errno.EISDIR, path)
        self._before_write(path)
        self._disk.change(path, None, None)
        self._disk.count_used()

    def remove_tree(self, path: str) -> None:
        """Remove a directory and everything in it, one name after the other."""
        path = self._directory(path)
        for name in self.list(path):
            inner = posixpath.join(path, name)
            if self._disk.names[inner] is None:
                self.remove_tree(inner)
            else:
                self.remove(inner)
        self._before_write(path)
        self._disk.change(path, None, None)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        path = self._directory(path)
        if self._disk.fails(self._disk.faults.sync_error):
            raise _error(errno.EIO, path)
        self._disk.commit_names(path)

    def lock(self, path: str) -> SimLock:
        """Take the lock file; a process that dies gives its locks up."""
        self._process.check_alive()
        path = _normal(path)
        holder = self._disk.locks.get(path)
        if holder is not None and holder.alive:
            raise BlockingIOError(errno.EAGAIN, f"{holder.name} has the lock", path)
        self.open(path, create=True)
        self._disk.locks[path] = self._process
        return SimLock(self._disk, path, self._process)

    def usage(self, path: str) -> tuple[int, int]:
        """Return (total, usable) bytes."""
        self._existing(_normal(path))
        capacity = self._disk.faults.capacity_bytes
        return capacity, max(0, capacity - self._disk.used_bytes)

    def open_files_limit(self) -> int:
        """Return a limit that is never reached."""
        return 1 << 20

    def stall(self) -> None:
        """Stall the process by a write that blocks."""
        if self._disk.stall is not None:
            seconds = self._disk.source.expovariate(1 / self._disk.faults.stall_s)
            self._disk.stall(self._process, seconds)

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Run `work` after a delay and return after another; cancelling the caller does not stop it."""
        self._process.check_alive()
        loop = self._disk.loop
        done: Any = loop.create_future()
        loop.call_later(self._disk.pool_delay_s(), self._in_pool, done, work, args)
        return await done  # type: ignore[no-any-return]

    def _in_pool(self, done: Any, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
        resolve: Callable[[Any], None]
        self.in_pool = True
        try:
            result, resolve = work(*args), done.set_result
        except Exception as error:  # noqa: BLE001 - the caller gets it, as from a thread
            result, resolve = error, done.set_exception
        finally:
            self.in_pool = False
        self._disk.loop.call_later(self._disk.pool_delay_s(), _settle, done, resolve, result)

    def _release_locks(self) -> None:
        for path, holder in list(self._disk.locks.items()):
            if holder is self._process:
                del self._disk.locks[path]

    def _existing(self, path: str) -> Inode | None:
        self._process.check_alive()
        if path not in self._disk.names:
            raise _error(errno.ENOENT, path)
        return self._disk.names[path]

    def _directory(self, path: str) -> str:
        path = _normal(path)
        if self._existing(path) is not None:
            raise _error(errno.ENOTDIR, path)
        return path

    def _check_parent(self, path: str) -> None:
        parent = posixpath.dirname(path)
        if parent not in self._disk.names:
            raise _error(errno.ENOENT, path)
        if self._disk.names[parent] is not None:
            raise _error(errno.ENOTDIR, path)

    def _before_write(self, path: str) -> None:
        """Inject the fault that prevents a change to `path`."""
        if self._count_down():
            self._process.crash()
        if self._disk.fails(self._disk.faults.write_error):
            raise _error(errno.EIO, path)

    def _count_down(self) -> bool:
        left = self._process.writes_left
        if left is None:
            return False
        self._process.writes_left = left - 1
        return left <= 0


class SimFile:
    """The `io.File` of one process: an open file."""

    def __init__(self, process_disk: ProcessDisk, inode: Inode, path: str) -> None:
        """Open `inode`; `path` is what errors name."""
        self._process_disk = process_disk
        self._disk = process_disk._disk
        self._process = process_disk._process
        self._inode = inode
        self._path = path
        self._open = True

    def write_at(self, data: Buffer, position: int) -> None:
        """Write into the page cache; a fault may leave a part of `data` behind."""
        self._check()
        content = bytes(data)
        if not self._process_disk.in_pool and self._disk.fails(self._disk.faults.stall):
            self._process_disk.stall()
        dies = self._process_disk._count_down()
        room = self._disk.faults.capacity_bytes - self._disk.used_bytes
        grows = max(0, position + len(content) - len(self._inode.cached))
        full = grows > room
        fails = not full and self._disk.fails(self._disk.faults.write_error)
        if dies or full or fails:
            content = content[: self._disk.source.randrange(len(content) + 1)]
            if full:
                content = content[: max(0, room)]
        if content:
            before = len(self._inode.cached)
            self._inode.write(content, position, self._disk.loop.time())
            self._disk.used_bytes += len(self._inode.cached) - before
        if dies:
            self._process.crash()
        if full:
            raise _error(errno.ENOSPC, self._path)
        if fails:
            raise _error(errno.EIO, self._path)

    def read_at(self, length: int, position: int) -> bytes:
        """Return bytes from the page cache, or what the medium gives for them."""
        self._check()
        if self._disk.fails(self._disk.faults.read_error):
            raise _error(errno.EIO, self._path)
        data = self._inode.read(length, position)
        if data and self._disk.fails(self._disk.faults.read_flip):
            spoilt = bytearray(data)
            spoilt[self._disk.source.randrange(len(data))] ^= 1 << self._disk.source.randrange(8)
            return bytes(spoilt)
        return data

    def is_cached(self, length: int, position: int) -> bool:
        """Return whether the range is in memory; now and then it has just fallen out."""
        self._check()
        if self._disk.fails(self._disk.faults.cold):
            self._inode.evict(length, position)
        return self._inode.is_cached(length, position)

    def read_cached(self, length: int, position: int) -> Buffer | None:
        """Return the range if it is in memory and in the file."""
        if not self.is_cached(length, position):
            return None
        data = self.read_at(length, position)
        return data if len(data) == length else None

    def sync(self) -> None:
        """Make the content durable; a failure forgets what was dirty."""
        self._check()
        if self._disk.fails(self._disk.faults.sync_error):
            self._inode.forget_dirty()
            raise _error(errno.EIO, self._path)
        self._inode.sync()

    def start_writeback(self) -> None:
        """Do nothing: what is dirty may reach the medium at any time."""
        self._check()

    def truncate(self, size: int) -> None:
        """Cut or extend the file."""
        self._check()
        self._process_disk._before_write(self._path)
        before = len(self._inode.cached)
        if size - before > self._disk.faults.capacity_bytes - self._disk.used_bytes:
            raise _error(errno.ENOSPC, self._path)
        self._inode.truncate(size, self._disk.loop.time())
        self._disk.used_bytes += size - before

    def size(self) -> int:
        """Return the length of the cached content."""
        self._check()
        return len(self._inode.cached)

    def fileno(self) -> int:
        """Return -1: there is no descriptor."""
        return -1

    def close(self) -> None:
        """Close the file; again is fine."""
        self._open = False

    def _check(self) -> None:
        self._process.check_alive()
        if not self._open:
            raise OSError(errno.EBADF, "the file is closed", self._path)


class SimLock:
    """An `io.Lock`."""

    def __init__(self, disk: SimDisk, path: str, process: Process) -> None:
        """Lock `path` for `process`."""
        self._disk = disk
        self._path = path
        self._process = process

    def release(self) -> None:
        """Release the lock."""
        if self._disk.locks.get(self._path) is self._process:
            del self._disk.locks[self._path]


_MISSING = Inode(0)


def _settle(done: Any, resolve: Callable[[Any], None], result: Any) -> None:
    if not done.done():
        resolve(result)


@lru_cache(maxsize=10_000)
def _normal(path: str) -> str:
    return posixpath.normpath(posixpath.join("/", path))


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
