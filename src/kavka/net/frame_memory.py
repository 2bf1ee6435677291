"""Memory of large frames that is used again once nothing looks at a frame any more.

A page that is touched for the first time costs the kernel a fault, and zeros. Where a consumer receives megabyte after
megabyte, that takes longer than the copying: 50,000 faults for 200 MB (decision 068).
"""

from __future__ import annotations

import mmap
import threading
from collections import deque
from contextlib import suppress

KEPT_BYTES = 32 * 1024 * 1024
"""The most that a `FrameMemory` keeps for later frames, unless it is made for more."""
_ROUNDED_BYTES = 256 * 1024
_MOST_TIMES = 4
_HUGE_BYTES = 2 * 1024 * 1024


class FrameMemory:
    """Gives memory for frames, to the connections of all threads."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        """Keep nothing as yet, later up to `kept_bytes`, of which no piece is more than a quarter."""
        self._kept_bytes = kept_bytes
        self._maps: deque[mmap.mmap] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> memoryview:
        """Return memory of `size` bytes with any content, which belongs to the caller as long as it has a view of it.

        Raise OSError where there is none.
        """
        if size == 0:
            return memoryview(bytearray())  # there are no empty maps
        # A fork may have copied the lock while another thread held it: never wait for it.
        if size > self._kept_bytes // 4 or not self._lock.acquire(blocking=False):
            return memoryview(_map(size))
        rounded = -(-size // _ROUNDED_BYTES) * _ROUNDED_BYTES
        try:
            # The smallest that will do: a large one is for large frames. Of those the one that was tried longest ago.
            fitting = [kept for kept in self._maps if size <= len(kept) <= _MOST_TIMES * rounded]
            for kept in sorted(fitting, key=len):
                is_unused = _is_unused(kept)
                self._maps.remove(kept)
                self._maps.append(kept)
                if is_unused:
                    return memoryview(kept)[:size]
            made = _map(rounded)
            self._keep(made)
            return memoryview(made)[:size]
        finally:
            self._lock.release()

    def _keep(self, made: mmap.mmap) -> None:
        """Keep memory, and forget what was tried longest ago where that is too much; its views stay valid."""
        self._maps.append(made)
        self._bytes += len(made)
        while self._bytes > self._kept_bytes:
            self._bytes -= len(self._maps.popleft())


def _map(size: int) -> mmap.mmap:
    """Return an anonymous map. It is private: a forked child keeps its frames when the parent receives others."""
    made = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages: then pages are small
            made.madvise(mmap.MADV_HUGEPAGE)
    return made


def _is_unused(kept: mmap.mmap) -> bool:
    """Return whether no view of a map is left; one of its own size is refused while there is."""
    try:
        kept.resize(len(kept))
    except (BufferError, SystemError):  # SystemError: the platform cannot resize maps
        return False
    return True


class Slices:
    """Cuts memory of a `FrameMemory` into slices, for many small takers at a time; it is given back with the last."""

    def __init__(self, memory: FrameMemory, slab_bytes: int = 1024 * 1024) -> None:
        """Take `slab_bytes` at a time, or as much as one slice needs."""
        self._memory = memory
        self._slab_bytes = slab_bytes
        self._rest = memoryview(b"")

    def take(self, size: int) -> memoryview:
        """Return a slice of `size` bytes. Raise OSError where there is no memory."""
        if size > len(self._rest):
            self._rest = self._memory.take(max(size, self._slab_bytes))
        found, self._rest = self._rest[:size], self._rest[size:]
        return found


RESPONSES = FrameMemory()
"""Of the responses that the clients of this process receive."""
RECORDS = FrameMemory(2 * KEPT_BYTES)
"""Of the records that they decompress, and of the values in Arrow's columns."""
