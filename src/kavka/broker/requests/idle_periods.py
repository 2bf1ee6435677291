"""Idle periods of a broker, which it uses for work that would hold up its clients; the collection of all garbage."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Final

_PAUSE_S: Final = 0.02
_BUSY_PAUSE_S: Final = 1.0


async def wait_until_idle(requests_received: Callable[[], int]) -> None:
    """Return when no request came within 20 ms; `requests_received` counts them since the start."""
    while True:
        before = requests_received()
        await asyncio.sleep(_PAUSE_S)
        if requests_received() == before:
            return
        await asyncio.sleep(_BUSY_PAUSE_S)


def collect_and_spare() -> None:
    """Collect all garbage, and spare what is left from later collections: most of it lives as long as the broker."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
