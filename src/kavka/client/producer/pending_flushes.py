"""Flushing: waiting until all appended records are acknowledged, and failures of records without a target."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kavka.client.producer.accumulator import Accumulator


class PendingFlushes:
    """The flushes that wait for batches."""

    def __init__(self, accumulator: Accumulator, send_immediately: Callable[[int], None]) -> None:
        """`send_immediately` counts how many wait: meanwhile batches are sent before they are full."""
        self._accumulator = accumulator
        self._send_immediately = send_immediately
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []  # number of the last batch
        self._failure: Exception | None = None

    async def wait(self) -> None:
        """Return when every batch that exists now is done."""
        target = self._accumulator.last_number
        if self._accumulator.first_incomplete_number > target:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((target, done))
        self._send_immediately(1)
        try:
            await done
        finally:
            self._send_immediately(-1)

    def complete_finished(self) -> None:
        """Complete the flushes that a finished batch was the last of."""
        if not self._waiting:
            return
        first = self._accumulator.first_incomplete_number
        still = []
        for target, done in self._waiting:
            if target >= first:
                still.append((target, done))
            elif not done.done():
                done.set_result(None)
        self._waiting = still

    def fail(self, error: Exception) -> None:
        """Keep the first failure for `raise_failure`."""
        self._failure = self._failure or error

    def raise_failure(self) -> None:
        """Raise, once, the first failure of a record without a target."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
