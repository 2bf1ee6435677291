"""Waiting for free memory in `buffer.memory`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from kavka.client.producer.accumulator import Accumulator


class BufferPool:
    """The calls that wait for memory. While one does, batches are sent before they are full."""

    def __init__(
        self, accumulator: Accumulator, send_immediately: Callable[[int], None], max_block_ms: int
    ) -> None:
        """`send_immediately` counts how many wait; `max_block_ms` is the bound of a wait."""
        self._accumulator = accumulator
        self._send_immediately = send_immediately
        self._max_block_ms = max_block_ms
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.awaiting_metadata_bytes = 0
        """Bytes of records of unknown topics: they are in no batch, and count nevertheless."""

    def has_free_memory(self, size: int) -> bool:
        """Return whether a record of `size` bytes would be taken."""
        if self.awaiting_metadata_bytes:
            return self._accumulator.fits_in_memory(self.awaiting_metadata_bytes + size)
        return self._accumulator.has_free_memory(size)

    async def wait_for_refused(self) -> None:
        """Return when there is memory for what was refused last. Raise TimeoutError after `max.block.ms`."""
        size = self._accumulator.refused_bytes
        await self._wait_until(lambda: self.has_free_memory(size))

    async def wait_in_batches(self, size: int) -> None:
        """Return when there is memory for what need not wait behind records awaiting metadata.

        That is those records themselves, and whole batches. Raise TimeoutError.
        """
        await self._wait_until(lambda: self._accumulator.has_free_memory(size))

    async def _wait_until(self, is_free: Callable[[], bool]) -> None:
        if is_free():
            return
        self._send_immediately(1)
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                while not is_free():
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiters.append(waiter)
                    await waiter
        except TimeoutError:
            raise TimeoutError(
                f"Failed to allocate memory within the configured max blocking time {self._max_block_ms} ms."
            ) from None
        finally:
            self._send_immediately(-1)

    def wake(self) -> None:
        """Wake the calls that wait for memory."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def wake_if_spare(self) -> None:
        """Wake them once much is free: for each batch it would be expensive."""
        if self._waiters and self._accumulator.has_spare_memory:
            self.wake()
