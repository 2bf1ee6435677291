"""Reads of records that are not in the page cache: they are loaded in the pool while the loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start_load(work: Coroutine[Any, Any, T], release: Callable[[], None]) -> asyncio.Future[T]:
    """Start to load what was read; call `release` if that is cancelled, even before its first step."""
    task = asyncio.ensure_future(work)

    def done(finished: asyncio.Future[T]) -> None:
        if finished.cancelled():
            release()

    task.add_done_callback(done)
    return task
