"""Waits for a broker where a process makes its first connection: one that is started again is back soon.

A connection of a query that begins is tried once, so that a wrong address is reported at once. But Spark has new
processes in the middle of a query, for which the address is right.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from kavka.client.backoff import backoff_ms

log = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_MS = 50
_MAX_MS = 1_000


async def connect_with_retries(connect: Callable[[], Awaitable[T]], timeout_ms: int) -> T:
    """Return what `connect` gives, called again for `patience_ms` while no broker answers it.

    Raise the last ConnectionError when the time is over, and anything else at once.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    for attempt in count():
        try:
            return await connect()
        except ConnectionError as error:
            if time.monotonic() >= deadline:
                raise
            log.info("no broker reached yet attempt=%d reason=%s", attempt, error)
        await asyncio.sleep(backoff_ms(attempt, _FIRST_MS, _MAX_MS, random.random()) / 1000)
    raise AssertionError("the count does not end")
