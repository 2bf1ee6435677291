"""Waiting for what no event reports: of a broker in the test's own loop, of threads, processes and files.

The pauses between two looks are the only sleeps of tests besides those whose subject is time (`test_sleeps.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(condition: Callable[[], object], timeout_s: float = 60) -> None:
    """Yield to the loop until a condition without an event holds. Raise TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.001)


async def eventually(
    ask: Callable[[], Awaitable[T]], holds: Callable[[T], object], timeout_s: float = 60
) -> T:
    """Ask until `holds` is true of the response, and return that response. Raise TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while not holds(response := await ask()):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
    return response


def wait_until(
    condition: Callable[[], object],
    timeout_s: float = 90,
    what: str | Callable[[], str] = "",
    error: type[Exception] = AssertionError,
) -> None:
    """Block until a condition holds that others bring about. Raise `error` with what was waited for."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            missing = what if isinstance(what, str) else what()
            raise error(f"not within {timeout_s:g} s: {missing or condition}")
        time.sleep(0.01)
