"""Waiting for a broker that runs in the test's own loop, and for what its threads do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], timeout_s: float = 60) -> None:
    """Yield to the loop until a condition without an event holds. Raise TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.001)
