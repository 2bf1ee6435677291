"""The order of writes to one log directory when its disk is slow.

    fast   nothing queued; logs write inline, on the loop, into the page cache
    slow   every write goes through here, one after the other, in the pool

A write that took longer than `slow_write_ms` makes the directory slow; a queue that drained with a fast last write
makes it fast again. So one slow disk stalls its own partitions and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from kavka.io import Clock

Operation = Callable[[], Awaitable[None]]


class WriteQueue:
    """A directory's queue. An operation that raises OSError fails the directory and everything behind it."""

    def __init__(
        self, clock: Clock, slow_write_ms: int, failed: Callable[[OSError], OSError]
    ) -> None:
        """Call `failed` with the first error; it returns the error that the callers get."""
        self._clock = clock
        self._slow_write_ms = slow_write_ms
        self._failed = failed
        self._operations: deque[tuple[Operation, asyncio.Future[None]]] = deque()
        self._draining: asyncio.Task[None] | None = None
        self.is_idle = True  # Invariant: false while anything is queued or running

    def note_duration(self, started_tick_ms: int) -> None:
        """Judge an inline write that began at `started_tick_ms`."""
        if self._clock.tick_ms() - started_tick_ms > self._slow_write_ms:
            self.is_idle = False

    def submit(self, operation: Operation) -> asyncio.Future[None]:
        """Run `operation` after all that was submitted before."""
        future = asyncio.get_running_loop().create_future()
        self._operations.append((operation, future))
        self.is_idle = False
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())
        return future

    async def drained(self) -> None:
        """Return when the queue is empty; failures are raised to their own callers."""
        if self._draining is not None:
            await asyncio.wait([self._draining])

    async def reached(self) -> None:
        """Return when all operations queued now are done; failures are raised to their callers."""
        if self._operations:
            await asyncio.wait([self._operations[-1][1]])

    async def _drain(self) -> None:
        is_slow = False
        try:
            while self._operations:
                operation, future = self._operations[0]
                started = self._clock.tick_ms()
                await operation()
                is_slow = self._clock.tick_ms() - started > self._slow_write_ms
                self._operations.popleft()
                if not future.done():
                    future.set_result(None)
            self.is_idle = not is_slow
        except OSError as error:
            self._fail_all(self._failed(error))
        finally:
            self._draining = None

    def _fail_all(self, error: OSError) -> None:
        """Fail all waiting operations, and refuse later ones."""
        for _, future in self._operations:
            if not future.done():
                future.set_exception(error)
                future.exception()  # retrieved: not every caller asks
        self._operations.clear()
