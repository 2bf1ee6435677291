"""How long one request keeps the loop to itself: about 2 ms, then others run.

    pace = Pace(clock.tick_ms)
    for each in many:
        ...
        if pace.is_over():
            await pace.rest()

Requests that are small have `UNPACED`, whose time is never over, so that their first stage stays one turn of the loop.
In the simulation no time passes while a handler runs, so nothing rests there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

SLICE_MS: Final = 2
_STEPS: Final = 32
"""The clock is read once in so many steps."""


class Pace:
    """Counts the work of one request; a step is some microseconds of it."""

    __slots__ = ("_end_ms", "_steps_left", "_tick_ms", "rests")

    def __init__(self, tick_ms: Callable[[], int]) -> None:
        """Begin now."""
        self._tick_ms = tick_ms
        self._end_ms = tick_ms() + SLICE_MS
        self._steps_left = _STEPS
        self.rests = 0
        """How often the loop was given away."""

    def is_over(self, steps: int = 1) -> bool:
        """Count `steps` of work; tell whether others should run now."""
        self._steps_left -= steps
        if self._steps_left > 0:
            return False
        self._steps_left = _STEPS
        return self._tick_ms() >= self._end_ms

    async def rest(self) -> None:
        """Let the loop serve others, then begin the next slice."""
        self.rests += 1
        await asyncio.sleep(0)
        self._end_ms = self._tick_ms() + SLICE_MS


class _Unpaced(Pace):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(lambda: 0)

    def is_over(self, steps: int = 1) -> bool:
        return False


UNPACED: Final = _Unpaced()
"""The pace of what is small."""
