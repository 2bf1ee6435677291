"""The timer of a machine of `core`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kavka.io import Clock


class MachineTimer:
    """Calls a function when a machine has something due.

    A timer that ends too early is left alone: most of what a machine waits for happens before it is due.
    """

    def __init__(self, clock: Clock, tick: Callable[[], None]) -> None:
        """`tick` is called at the due time, or before it; it calls `set` again."""
        self._clock = clock
        self._tick = tick
        self._timer: asyncio.TimerHandle | None = None
        self._ends_ms = 0

    def set(self, due_ms: int | None) -> None:
        """Have the function called no later than at `due_ms`; None is never."""
        if due_ms is None or (self._timer is not None and self._ends_ms <= due_ms):
            return
        self.cancel()
        delay_ms = max(0, due_ms - self._clock.tick_ms())
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._end)
        self._ends_ms = due_ms

    def _end(self) -> None:
        self._timer = None
        self._tick()

    def cancel(self) -> None:
        """Call the function no more, until `set`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
