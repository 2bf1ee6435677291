"""System calls that Python does not offer: `sync_file_range` and `cachestat`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

_CACHESTAT = 451  # on every architecture but alpha, since Linux 6.5
_SYNC_FILE_RANGE_WRITE = 2


def start_writeback(fd: int) -> None:
    """Start the kernel's writeback of a file's dirty pages, where the C library can; failures are not reported."""
    call = _sync_file_range()
    if call is not None:
        call(fd, 0, 0, _SYNC_FILE_RANGE_WRITE)


def cached_pages(fd: int, position: int, length: int) -> int:
    """Return how many pages of a range of a file, at least a byte long, are in the page cache; never blocks.

    Pages that are being read into memory count. -1 where the kernel does not tell: it is older, a sandbox refuses the
    call, or the file belongs to another user.
    """
    return _cachestat()(fd, position, length)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return the system call; None where the C library has none."""
    import ctypes  # only a stop of many logs needs it

    try:
        call = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    call.restype = ctypes.c_int
    found: Callable[[int, int, int, int], int] = call
    return found


@cache
def _cachestat() -> Callable[[int, int, int], int]:
    """Return `cached_pages`."""
    import ctypes  # only large reads need it

    call = ctypes.CDLL(None).syscall
    call.argtypes = (
        *(ctypes.c_long, ctypes.c_int),
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint),
    )
    call.restype = ctypes.c_long
    asked_type = ctypes.c_uint64 * 2  # position, length
    counts_type = ctypes.c_uint64 * 5  # cached, dirty, in writeback, evicted, recently evicted

    def count(fd: int, position: int, length: int) -> int:
        asked, counts = asked_type(position, length), counts_type()
        return counts[0] if call(_CACHESTAT, fd, asked, counts, 0) == 0 else -1

    return count
