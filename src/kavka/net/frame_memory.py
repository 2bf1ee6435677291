"""Memory of large frames that is used again once nothing looks at a frame any more.

A page that is touched for the first time costs the kernel a fault, and zeros. Where a consumer receives megabyte after
megabyte, that takes longer than the copying: 50,000 faults for 200 MB (decision 068).
"""

from __future__ import annotations

import mmap
import threading
from collections import deque

KEPT_BYTES = 32 * 1024 * 1024
"""The most that one `FrameMemory` keeps for later frames."""
_LARGEST_KEPT = KEPT_BYTES // 4
_ROUNDED_BYTES = 256 * 1024


class FrameMemory:
    """Gives memory for frames, to the connections of all threads."""

    def __init__(self) -> None:
        """Keep nothing as yet."""
        self._maps: deque[mmap.mmap] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> memoryview:
        """Return memory of `size` bytes with any content, which belongs to the caller as long as it has a view of it.

        Raise OSError where there is none.
        """
        # A fork may have copied the lock while another thread held it: never wait for it.
        if size > _LARGEST_KEPT or not self._lock.acquire(blocking=False):
            return memoryview(_map(size))
        try:
            for kept in self._maps:
                if len(kept) >= size and _is_unused(kept):
                    return memoryview(kept)[:size]
            made = _map(-(-size // _ROUNDED_BYTES) * _ROUNDED_BYTES)
            self._keep(made)
            return memoryview(made)[:size]
        finally:
            self._lock.release()

    def _keep(self, made: mmap.mmap) -> None:
        """Keep memory, and forget the oldest where that is too much; its views stay valid."""
        self._maps.append(made)
        self._bytes += len(made)
        while self._bytes > KEPT_BYTES:
            self._bytes -= len(self._maps.popleft())


def _map(size: int) -> mmap.mmap:
    """Return an anonymous map. It is private: a forked child keeps its frames when the parent receives others."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _is_unused(kept: mmap.mmap) -> bool:
    """Return whether no view of a map is left; one of its own size is refused while there is."""
    try:
        kept.resize(len(kept))
    except (BufferError, SystemError):  # SystemError: the platform cannot resize maps
        return False
    return True


RESPONSES = FrameMemory()
"""Of the responses that the clients of this process receive."""
