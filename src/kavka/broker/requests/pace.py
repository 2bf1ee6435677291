"""The time that paced requests take of the event loop: 2 ms of each iteration for all of them, in turn.

    pace = slices.pace()
    for each in many:
        ...
        if pace.is_over():
            await pace.rest()

Requests that are small have `UNPACED`, which is never over, so that their first stage stays one iteration of the
loop. In the simulation no time passes while a handler runs, so nothing rests there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

SLICE_MS: Final = 2
_STEPS: Final = 32
"""Number of steps after which the clock is read."""


class Slices:
    """Slices of one event loop's iterations: the time of an iteration is shared by all paced requests.

    Requests that rest are resumed one in an iteration, in the order in which they began to rest. Many requests that
    arrive together therefore keep the loop no longer than one does.
    """

    def __init__(self, tick_ms: Callable[[], int]) -> None:
        """Begin with no request; `tick_ms` is the monotonic clock."""
        self._tick_ms = tick_ms
        self._resting: deque[asyncio.Future[None]] = deque()
        self._end_ms = 0
        self._has_begun = False
        """True from the first slice of an iteration to the next iteration."""
        self._is_scheduled = False

    def pace(self) -> Pace:
        """Return the pace of a request that begins now."""
        return Pace(self)

    def tick_ms(self) -> int:
        """Return the time of the monotonic clock."""
        return self._tick_ms()

    def end_ms(self) -> int:
        """Return when the time of this iteration is over; it begins with the first call."""
        if not self._has_begun:
            self._begin()
        return self._end_ms

    async def rest(self) -> None:
        """Return in a later iteration, after the requests that rest already; its time begins then."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.append(future)
        self._schedule()
        try:
            await future
        finally:
            self._begin()

    def _begin(self) -> None:
        self._has_begun = True
        self._end_ms = self._tick_ms() + SLICE_MS
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._resume_next)

    def _resume_next(self) -> None:
        """Resume one request, which runs in the next iteration and has the one after resumed."""
        self._is_scheduled = self._has_begun = False
        while self._resting:
            future = self._resting.popleft()
            if not future.done():
                future.set_result(None)
                return


class Pace:
    """Counts the work of one request; a step is some microseconds of it."""

    __slots__ = ("_end_ms", "_slices", "_steps_left", "rests")

    def __init__(self, slices: Slices) -> None:
        """Begin now."""
        self._slices = slices
        self._end_ms = slices.end_ms()
        self._steps_left = _STEPS
        self.rests = 0
        """Number of times that the loop was given away."""

    def is_over(self, steps: int = 1) -> bool:
        """Count `steps` of work; return whether others should run now."""
        self._steps_left -= steps
        if self._steps_left > 0:
            return False
        self._steps_left = _STEPS
        return self._slices.tick_ms() >= self._end_ms

    async def rest_if_over(self) -> None:
        """Rest at the beginning of a stage unless this iteration has time left: many stages may begin in one."""
        if self.is_over(_STEPS):
            await self.rest()

    async def rest(self) -> None:
        """Yield to the loop, then begin the next time slice."""
        self.rests += 1
        await self._slices.rest()
        self._end_ms = self._slices.end_ms()


class _Unpaced(Pace):
    __slots__ = ()

    def __init__(self) -> None:
        """Take no time of a loop."""
        self.rests = 0

    def is_over(self, steps: int = 1) -> bool:
        return False


UNPACED: Final = _Unpaced()
"""The pace of what is small."""
