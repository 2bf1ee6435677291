"""The event that a poll without records waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kavka.client.direct_future import DirectFuture, call_first


class Wakeup:
    """An event whose waiters go on in the callback of the loop that `schedule` calls. All methods are the loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin without waiters, and not set."""
        self._loop = loop
        self._waiters: list[DirectFuture[None]] = []
        self._is_scheduled = False
        self.schedule: Callable[[Callable[[], None]], object] = loop.call_soon
        """Calls a function soon; while a response is taken, after those that came with it, in the same iteration."""
        self.is_set = False

    def set(self) -> None:
        """Wake those that wait; until `clear`, later ones do not wait."""
        self.is_set = True
        if self._waiters and not self._is_scheduled:
            self._is_scheduled = True
            self.schedule(self._wake)

    def clear(self) -> None:
        """Undo `set`: later ones wait again."""
        self.is_set = False

    async def wait(self, timeout_s: float) -> None:
        """Return when it is set, or after the time."""
        if self.is_set:
            return
        waiter: DirectFuture[None] = DirectFuture(loop=self._loop)
        waiter.callback = None
        self._waiters.append(waiter)
        timer = self._loop.call_later(timeout_s, _end, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        self._is_scheduled = False
        waiters, self._waiters = self._waiters, []
        woken = [waiter for waiter in waiters if not waiter.done()]
        for waiter in woken:
            asyncio.Future.set_result(waiter, None)
        call_first(woken)


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
