"""Waiting for room in `buffer.memory`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from kavka.client.producer.accumulator import Accumulator


class Room:
    """Those who wait for room. While anybody does, batches are sent before they are full."""

    def __init__(
        self, accumulator: Accumulator, hurry: Callable[[int], None], max_block_ms: int
    ) -> None:
        """`hurry` counts how many wait; `max_block_ms` is the bound of a wait."""
        self._accumulator = accumulator
        self._hurry = hurry
        self._max_block_ms = max_block_ms
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.early_bytes = 0
        """Bytes of records whose topic is not known yet: they are in no batch, and count all the same."""

    def has(self, size: int) -> bool:
        """Tell whether a record of `size` bytes would be taken."""
        if self.early_bytes:
            return self._accumulator.fits(self.early_bytes + size)
        return self._accumulator.has_room(size)

    async def wait_for(self, size: int) -> None:
        """Return when there is room for what was refused. Raise TimeoutError after `max.block.ms`."""
        await self._until(lambda: self.has(size))

    async def wait_in_batches(self, size: int) -> None:
        """As `wait_for`, for what must not wait for early records: themselves, and whole batches."""
        await self._until(lambda: self._accumulator.has_room(size))

    async def _until(self, has_room: Callable[[], bool]) -> None:
        if has_room():
            return
        self._hurry(1)
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                while not has_room():
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiters.append(waiter)
                    await waiter
        except TimeoutError:
            raise TimeoutError(
                f"Failed to allocate memory within the configured max blocking time {self._max_block_ms} ms."
            ) from None
        finally:
            self._hurry(-1)

    def wake(self) -> None:
        """Let those who wait look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def wake_if_roomy(self) -> None:
        """Wake them once much is free: for each batch it would be dear."""
        if self._waiters and self._accumulator.is_roomy:
            self.wake()
