"""One stage of a run: its time, and lines that say how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable

SAID_EVERY_S = 10.0


class Stage:
    """Counts what a stage has done, and says it every ten seconds."""

    def __init__(
        self,
        name: str,
        seconds: float,
        total: int | None = None,
        *,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin; `total` is how many things there are to do, where that is known."""
        self._name = name
        self._total = total
        self._say = say
        self._clock = clock
        self._began = self._said = clock()
        self._end = self._began + seconds
        self.done = 0
        bound = f"{total} of them, " if total is not None else ""
        say(f"{name}: {bound}at most {seconds:.0f} s")

    @property
    def seconds_left(self) -> float:
        """Seconds left of its time; 0 when it is over."""
        return max(0.0, self._end - self._clock())

    @property
    def is_over(self) -> bool:
        """Return whether its time is over: nothing more is to be begun."""
        return self._clock() >= self._end

    def step(self) -> None:
        """Count one thing that is done."""
        self.done += 1
        now = self._clock()
        if now - self._said >= SAID_EVERY_S:
            self._said = now
            self._say(f"{self._name}: {self._count()}, {self.seconds_left:.0f} s left")

    def end(self) -> None:
        """Say what was done, and that the time was too short for the rest."""
        took = self._clock() - self._began
        unfinished = self._total is not None and self.done < self._total
        rest = "; the time is over for the others" if unfinished else ""
        self._say(f"{self._name}: {self._count()} in {took:.0f} s{rest}")

    def _count(self) -> str:
        return f"{self.done} done" if self._total is None else f"{self.done} of {self._total} done"
