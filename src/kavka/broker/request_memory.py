"""What requests may take of memory besides their frames: each by itself, and large ones together.

A frame of a mebibyte can say half a million empty names, and each becomes an object. What decoded objects weigh is
estimated while they are made (`wire.compile_decode`), so that a request which takes too much is given up early.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

REQUEST_SETTING: Final = "kavka.request.decoded.max.bytes"
ANSWER_SETTING: Final = "kavka.response.max.bytes"
TOTAL_SETTING: Final = "kavka.requests.decoded.max.bytes"
_LEAST: Final = 8 << 20
_PER_BYTE: Final = 20
"""Real requests become 5 to 15 times as large when they are decoded; only those that say nothing become more."""


class RequestTooLarge(Exception):
    """A request that would take more memory, or give a larger answer, than one may; its connection is closed."""


def decoded_limit(frame_bytes: int, most: int) -> int:
    """Return how many bytes the objects of a frame may weigh."""
    return min(most, _LEAST + _PER_BYTE * frame_bytes)


class RequestMemory:
    """The memory of all large requests in work. Those for which there is no room wait, first come, first served."""

    def __init__(self, capacity: int) -> None:
        """Begin with nothing in use."""
        self._capacity = capacity
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.in_use = 0
        """Invariant: what was taken and not given back."""

    async def take(self, size: int) -> None:
        """Wait until there is room for `size`; one request that is larger than all the room has it alone."""
        if not self._waiting and self._has_room(size):
            self.in_use += size
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, future))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give(size)  # it was let in at the moment it was given up
            raise

    def give(self, size: int) -> None:
        """Give memory back, and let in those who wait for it."""
        self.in_use -= size
        assert self.in_use >= 0, "given back twice"
        while self._waiting and (self._waiting[0][1].done() or self._has_room(self._waiting[0][0])):
            wanted, future = self._waiting.popleft()
            if not future.done():
                self.in_use += wanted
                future.set_result(None)

    def _has_room(self, size: int) -> bool:
        return self.in_use == 0 or self.in_use + size <= self._capacity


def check_count(api: str, what: str, count: int, most: int) -> None:
    """Raise RequestTooLarge for more of something than a request may name."""
    if count > most:
        raise RequestTooLarge(f"a {api} names {count} {what}, allowed are {most}")
