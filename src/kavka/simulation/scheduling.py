"""The calls of the simulated loop: those that run as soon as it can, and timers on virtual time.

Processes, tasks and futures are built on this part of the loop; `loop.SimLoop` runs what is scheduled here.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import heapq
from collections.abc import Callable
from typing import Any, TypeVarTuple

Ts = TypeVarTuple("Ts")


class ScheduledCall(asyncio.TimerHandle):
    """A callback that runs only while its process does; with a time it is a timer.

    It shares nothing with asyncio's handles but their methods: they ask for the debug mode in every call.
    """

    __slots__ = ("args", "callback", "context", "due_s", "is_cancelled", "loop")

    def __init__(
        self,
        due_s: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SchedulingLoop,
        context: contextvars.Context | None,
    ) -> None:
        """Schedule `callback` at `due_s` virtual seconds."""
        self.due_s = due_s
        self.callback = callback
        self.args = args
        self.loop = loop
        self.context = contextvars.copy_context() if context is None else context
        self.is_cancelled = False

    def cancel(self) -> None:
        """Drop the callback."""
        if not self.is_cancelled:
            self.is_cancelled = True
            self.callback, self.args = _nothing, ()
            if self.due_s >= 0:
                self.loop.timer_cancelled()

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self.is_cancelled

    def when(self) -> float:
        """Return the virtual time at which it is due."""
        return self.due_s

    def __repr__(self) -> str:
        """Name the callback."""
        return f"<step {self.callback!r}>"

    # Steps are equal by identity, as handles are; asyncio's timers are equal by their time.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


_NOW = -1.0
"""Due time of a call that is no timer."""


def _nothing() -> None:
    """Do nothing: the step was cancelled."""


class SchedulingLoop(asyncio.BaseEventLoop):
    """The queue and the timers of a simulated loop, and the numbers by which tasks and futures hash."""

    _ready: collections.deque[ScheduledCall]
    # A timer with its time and birth in front, so that comparing two of them is no call into Python.
    _scheduled: list[tuple[float, int, ScheduledCall]]

    def __init__(self) -> None:
        """Schedule nothing; the time is 0 seconds."""
        super().__init__()
        self.set_debug(False)
        self.now_s = 0.0
        """Current virtual time, as `time` returns it."""
        self._creation_count = 0
        self._cancelled_timers = 0

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self.now_s

    def next_creation_number(self) -> int:
        """Return a number larger than all before."""
        self._creation_count += 1
        return self._creation_count

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Queue a callback behind all that are ready."""
        if self.is_closed():
            raise RuntimeError("the world has ended")
        step = ScheduledCall(_NOW, callback, args, self, context)
        self._ready.append(step)
        return step

    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Queue a callback for the time `when`."""
        if self.is_closed():
            raise RuntimeError("the world has ended")
        timer = ScheduledCall(when, callback, args, self, context)
        self._creation_count += 1
        heapq.heappush(self._scheduled, (when, self._creation_count, timer))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Queue a callback for `delay` seconds from now."""
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def put_back(self, held: list[ScheduledCall]) -> None:
        """Make steps ready that a pause held back."""
        self._ready.extend(held)

    def timer_cancelled(self) -> None:
        """Note that a timer will not run; when half of them will not, they are let go."""
        self._cancelled_timers += 1
        if self._cancelled_timers > 200 and self._cancelled_timers > len(self._scheduled) // 2:
            self._scheduled[:] = [timer for timer in self._scheduled if not timer[2].is_cancelled]
            heapq.heapify(self._scheduled)
            self._cancelled_timers = 0
