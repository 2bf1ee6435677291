"""Waiting for a directory's writes while there are always more."""

from __future__ import annotations

import asyncio

from kavka.net.clock import SystemClock
from kavka.storage.directory.write_queue import WriteQueue


def test_waiting_for_what_is_queued_is_not_waiting_for_what_comes_later() -> None:
    async def run() -> None:
        queue = WriteQueue(SystemClock(), 50, lambda error: error)
        done = []

        async def write_and_queue_more(number: int) -> None:
            await asyncio.sleep(0)
            done.append(number)
            queue.submit(lambda: write_and_queue_more(number + 1))

        queue.submit(lambda: write_and_queue_more(0))
        async with asyncio.timeout(60):
            await queue.reached()
        assert done[0] == 0
        assert not queue.is_idle
        queue._draining.cancel()

    asyncio.run(run())


def test_no_caller_waits_for_an_empty_queue() -> None:
    asyncio.run(WriteQueue(SystemClock(), 50, lambda error: error).reached())
