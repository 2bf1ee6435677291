"""The real disk: system calls on the caller's thread, and a small pool for those that block.

A read that must not block asks `is_cached` first, which probes the page cache with `preadv(RWF_NOWAIT)`.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from kavka.io import Buffer
from kavka.storage.disk.linux_calls import cached_pages, start_writeback

T = TypeVar("T")

logger = logging.getLogger(__name__)

_UNLIMITED = 2**31 - 1

# The kernel brings pages in by readahead windows of at least this size and evicts them by folios, so that
# one byte per stride shows nearly as much as one per page, at a sixteenth of the cost.
_PROBE_STRIDE = 65536
_RWF_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


def _page_span(length: int, position: int) -> int:
    """Return how many pages a range touches."""
    return (position + length - 1) // _PAGE_BYTES - position // _PAGE_BYTES + 1


class OsFile:
    """An open file of the operating system."""

    __slots__ = ("_can_count", "_fd", "_probe")

    def __init__(self, fd: int) -> None:
        """Own the descriptor `fd`."""
        self._fd = fd
        self._probe: list[bytearray] | None = [bytearray(1)] if _RWF_NOWAIT else None
        self._can_count = True
        """False once the kernel did not count cached pages."""

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of `data` from byte `position` on (into the page cache)."""
        written = os.pwrite(self._fd, data, position)
        if written != len(data):
            self._write_rest(memoryview(data), written, position)

    def _write_rest(self, data: memoryview, written: int, position: int) -> None:
        """Continue after a short write: the next one writes more or says what is wrong (a full disk)."""
        while written < len(data):
            count = os.pwrite(self._fd, data[written:], position + written)
            if count == 0:
                raise OSError(errno.EIO, "a write made no progress")
            written += count

    def read_at(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`; fewer only at the end of the file."""
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        have = len(data)
        while have < length:
            data = os.pread(self._fd, length - have, position + have)
            if not data:
                break
            parts.append(data)
            have += len(data)
        return b"".join(parts)

    def is_cached(self, length: int, position: int) -> bool:
        """Return, without blocking, whether a read of this range would be served from memory.

        The kernel counts the pages of a long range in one call, where it can; else one byte per stride is probed. The
        first and the last byte are always probed, because a page that is still being read ahead counts as well.
        On file systems without this information the result is no: the caller then reads in the pool, which is slower
        and never wrong.
        """
        probe = self._probe
        if probe is None:
            return False
        if length <= 0:
            return True
        stride = _PROBE_STRIDE
        if length > _PROBE_STRIDE and self._can_count:
            pages = cached_pages(self._fd, position, length)
            self._can_count = pages >= 0
            if self._can_count:
                if pages < _page_span(length, position):
                    return False
                stride = length
        for place in (*range(position, position + length, stride), position + length - 1):
            if self._read_nowait(probe, place) < 0:
                return False
        return True

    def read_cached(self, length: int, position: int) -> Buffer | None:
        """Return a short range without blocking; None when not all of it is in memory, or in the file."""
        if self._probe is None:
            return None
        data = bytearray(length)
        return data if self._read_nowait([data], position) == length else None

    def _read_nowait(self, buffers: list[bytearray], position: int) -> int:
        """Read without blocking and return how many bytes; -1 if they are not in memory, or that is not known here."""
        try:
            return os.preadv(self._fd, buffers, position, _RWF_NOWAIT)
        except BlockingIOError:
            return -1
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self._probe = None
            return -1

    def sync(self) -> None:
        """Return when all that was written is on the medium (fdatasync)."""
        os.fdatasync(self._fd)

    def start_writeback(self) -> None:
        """Start the kernel's writeback of dirty pages; a failure shows at the `sync` that follows."""
        start_writeback(self._fd)

    def truncate(self, size: int) -> None:
        """Cut or extend the file to `size` bytes."""
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        """Return the file's length in bytes."""
        return os.fstat(self._fd).st_size

    def fileno(self) -> int:
        """Return the descriptor; -1 once closed."""
        return self._fd

    def close(self) -> None:
        """Release the descriptor; calling it twice is allowed."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class OsLock:
    """An exclusive `flock` that is held; the kernel drops it when the process dies."""

    def __init__(self, fd: int) -> None:
        """Own the locked descriptor `fd`."""
        self._fd = fd

    def release(self) -> None:
        """Release the lock; calling it twice is allowed. The file stays, as Kafka's does."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class OsDisk:
    """The real file system."""

    def __init__(self, threads: int = 12) -> None:
        """Use up to `threads` threads, each started when it is first needed."""
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def open(self, path: str, *, create: bool = False, private: bool = False) -> OsFile:
        """Open `path` for reading and writing; with `create`, make it when it is missing.

        With `private`, only this user may read it.
        """
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        fd = os.open(path, flags, 0o600 if private else 0o666)
        if private:
            try:
                os.fchmod(fd, 0o600)
            except OSError:
                os.close(fd)
                raise
        return OsFile(fd)

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        """Return whether `path` is there."""
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        """Return whether `path` is a directory."""
        return os.path.isdir(path)

    def make_directories(self, path: str) -> None:
        """Make the directory and its parents; one that exists is fine."""
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Move `old` to `new`, replacing a file that is there."""
        os.replace(old, new)

    def remove(self, path: str) -> None:
        """Unlink a file."""
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it."""
        import shutil  # brings bz2 and lzma with it, and not every broker removes a log

        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        """Make renames, creations and removals in the directory durable. It blocks."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> OsLock:
        """Take an exclusive lock on the file. Raise BlockingIOError when another process has it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise OSError(
                error.errno, error.strerror, path
            ) from error  # flock does not say which file
        return OsLock(fd)

    def usage(self, path: str) -> tuple[int, int]:
        """Return (total, usable) bytes of the file system that holds `path`."""
        facts = os.statvfs(path)
        return facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize

    def open_files_limit(self) -> int:
        """Return how many files this process may have open, after raising that as far as the system lets it."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
                soft = hard
            # ValueError where the kernel has a lower bound of its own.
            except (OSError, ValueError) as error:
                logger.warning("open files limit stays limit=%d reason=%s", soft, error)
        return _UNLIMITED if soft == resource.RLIM_INFINITY else soft

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Run a system call or a kernel call in the pool; never Python work."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="kavka-disk")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *args)

    def close(self) -> None:
        """Wait for what runs in the pool and end its threads."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)
