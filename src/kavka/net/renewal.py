"""Renewal of what has a life, such as tokens and tickets: when it is due, and the timer that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakMethod


def renewal_share(window_factor: float, window_jitter: float, chance: float) -> float:
    """Return after which share of a life it is renewed, from 0 to 1; `chance` is from 0 up to 1."""
    return min(1.0, max(0.0, window_factor + window_jitter * chance))


def call_later_weakly(
    loop: asyncio.AbstractEventLoop, delay_ms: int, method: Callable[[], None]
) -> asyncio.TimerHandle:
    """Call a bound method after so long, unless its object is gone by then: the timer does not keep it."""
    return loop.call_later(delay_ms / 1000, _call, WeakMethod(method))


def _call(found: WeakMethod[Callable[[], None]]) -> None:
    method = found()
    if method is not None:
        method()
