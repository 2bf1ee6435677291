"""An event loop that measures its iterations: how long it is busy between two calls of `select`.

asyncio calls `select`, then runs all ready callbacks: that is an iteration. No other client is served while it lasts,
so a long one is a *stall*, which is reported at its end with its duration, its processor time, and the work that was
begun in it.

    select -> callbacks, steps of tasks -> select -> ...
              |<------- an iteration ------->|

It costs 0.1 us an iteration (the least of forty runs): the monotonic clock is read twice. The thread's processor
time, which needs a system call, is read at the beginning of an iteration when it was not within the last ten
milliseconds: that of a stall is too large by ten milliseconds at the most.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kavka.metrics.timings import Timings

_NS = 1_000_000  # of a millisecond
_CPU_READ_NS = 10 * _NS
_MAX_WORKS = 256
_NEVER_NS = 1 << 62


class Work(Protocol):
    """Work that was begun in an iteration, described by its owner."""

    @property
    def began_ms(self) -> int:
        """Return the start, by the monotonic clock."""
        ...


class Stall(NamedTuple):
    """An iteration that was too long."""

    duration_ms: int
    cpu_ms: int
    """Processor time of the loop's thread; in the rest it waited for the processor, or in a system call."""
    work: Work | None
    """The noted work that lasted longest; None when none was noted, as in the step of a task."""


class WaitSampler(Protocol):
    """Measures now and then what it takes to wait for events."""

    def end_iteration(self) -> None:
        """Note that an iteration ends, before the works that were noted in it are forgotten."""
        ...

    def sample(self, wait: Callable[[], list[Any]], *, is_alone: bool) -> list[Any]:
        """Return what `wait` returns; `is_alone` if no callback is ready before it."""
        ...


class LoopIterations:
    """Statistics of a loop's iterations. All calls come from its thread."""

    def __init__(self, *, is_measured: bool = True) -> None:
        """Begin with none; where iterations are not measured, what is noted is forgotten at once."""
        self.works: deque[Work] = deque(maxlen=_MAX_WORKS if is_measured else 1)
        """Work that was begun in this iteration, in order. `works.append` is for the hot path: it is a call into C."""
        self.timings = Timings()
        """Of the iterations of at least a millisecond."""
        self.sampler: WaitSampler | None = None
        """Called for each wait of the loop; None while no connection is measured."""
        self.has_one_event = True
        """True if this iteration has one socket to serve at most: few others, if any, wait for its end."""
        self.stalls = 0
        self.stalled_ms = 0
        """The sum of all stalls."""
        self._longest = [0, 0]
        self._stall_ns = _NEVER_NS
        self._stalled: Callable[[Stall], None] | None = None

    def watch(self, stall_ms: int, stalled: Callable[[Stall], None]) -> None:
        """Call `stalled` at the end of every iteration that takes `stall_ms` or more."""
        self._stall_ns = stall_ms * _NS
        self._stalled = stalled

    def unwatch(self, stalled: Callable[[Stall], None]) -> None:
        """Call `stalled` no more."""
        if self._stalled == stalled:
            self._stall_ns, self._stalled = _NEVER_NS, None

    @property
    def longest_ms(self) -> int:
        """The longest iteration of the last minute or two."""
        return max(self._longest)

    def rotate(self) -> None:
        """Begin another minute; the one before the last is forgotten."""
        self._longest = [0, self._longest[0]]
        self.timings.rotate()

    def ended(self, began_ns: int, ended_ns: int, cpu_ns: int) -> None:
        """Count an iteration of at least a millisecond; in its time the thread has worked `cpu_ns`."""
        duration_ms = (ended_ns - began_ns) // _NS
        self.timings.record(duration_ms)
        self._longest[0] = max(self._longest[0], duration_ms)
        if ended_ns - began_ns < self._stall_ns or self._stalled is None:
            return
        self.stalls += 1
        self.stalled_ms += duration_ms
        cpu_ms = min(cpu_ns // _NS, duration_ms)
        self._stalled(Stall(duration_ms, cpu_ms, self._longest_work(ended_ns // _NS)))

    def _longest_work(self, ended_ms: int) -> Work | None:
        """Return what took longest: each work lasts until the next begins."""
        works = list(self.works)
        ends = [*(work.began_ms for work in works[1:]), ended_ms]
        lasted = [end - work.began_ms for work, end in zip(works, ends, strict=False)]
        return works[lasted.index(max(lasted))] if works else None


class MeasuredSelector(selectors.DefaultSelector):
    """The system's selector; it reports each iteration of at least a millisecond to `iterations`."""

    def __init__(self, iterations: LoopIterations) -> None:
        """Wait for nothing yet."""
        super().__init__()
        self._iterations = iterations
        self._works = iterations.works
        self.begin()

    def begin(self) -> None:
        """Begin an iteration now, on the thread that the loop runs on: what was before belongs to none."""
        self._began_ns = self._cpu_read_ns = time.monotonic_ns()
        self._cpu_ns = time.thread_time_ns()

    def select(
        self,
        timeout: float | None = None,
        *,
        _now: Callable[[], int] = time.monotonic_ns,
        _wait: Callable[..., list[tuple[selectors.SelectorKey, int]]] = (
            selectors.DefaultSelector.select
        ),
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """End an iteration, wait, and begin the next."""
        ended = _now()
        if ended - self._began_ns >= _NS:
            cpu_ns = time.thread_time_ns() - self._cpu_ns
            self._iterations.ended(self._began_ns, ended, cpu_ns)
        sampler = self._iterations.sampler
        if sampler is not None:
            sampler.end_iteration()
        if self._works:
            self._works.clear()
        ready = (
            _wait(self, timeout)
            if sampler is None
            else sampler.sample(lambda: _wait(self, timeout), is_alone=timeout != 0)
        )
        self._iterations.has_one_event = len(ready) <= 1
        self._began_ns = began = _now()
        if began - self._cpu_read_ns >= _CPU_READ_NS:
            self._cpu_read_ns = began
            self._cpu_ns = time.thread_time_ns()
        return ready


class MeasuredEventLoop(asyncio.SelectorEventLoop):
    """asyncio's loop over a `MeasuredSelector`: the factory for `asyncio.Runner`."""

    def __init__(self) -> None:
        """Make a loop that runs on the thread that makes it, or on another."""
        self.iterations = LoopIterations()
        self._measured = MeasuredSelector(self.iterations)
        super().__init__(self._measured)
        # asyncio's own `time` is a call of this in a function; called directly it saves what the measuring costs.
        self.time = time.monotonic  # type: ignore[method-assign]

    def run_forever(self) -> None:
        """Run until `stop` is called; the time in which the loop did not run is no iteration."""
        self._measured.begin()
        super().run_forever()


def iterations_of(loop: asyncio.AbstractEventLoop) -> LoopIterations:
    """Return the iterations of a loop; of one that does not measure them, an object that stays empty."""
    found: Any = getattr(loop, "iterations", None)
    return found if isinstance(found, LoopIterations) else LoopIterations(is_measured=False)
