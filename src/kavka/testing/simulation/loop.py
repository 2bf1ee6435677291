"""An asyncio loop whose time is a number.

When nothing is ready, time jumps to the next timer. Nothing is shuffled: asyncio promises that `call_soon` is first in,
first out, so all randomness comes from how long disk and network take. What makes a run the same in every process:
timers of equal time run in the order they were made, tasks and futures hash by birth (`process.py`), and
no callback comes from another thread.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import heapq
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple

from kavka.testing.simulation.process import PROCESS, Process, SimFuture, SimTask

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STEPS_IN_ONE_INSTANT = 200_000
"""More steps than this without time moving are a loop that never ends."""


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set, but somebody still waits."""


class Livelock(RuntimeError):
    """Steps follow one another without end and time stands still."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception that nobody handled: where it ended and what it was."""

    at_s: float
    who: str
    message: str
    exception: BaseException | None

    def __str__(self) -> str:
        """Return the failure with its traceback."""
        lines = [f"{self.at_s:.6f} {self.who}: {self.message}"]
        if self.exception is not None:
            lines += traceback.format_exception(self.exception)
        return "\n".join(line.rstrip() for line in lines)


class _SimHandle(asyncio.Handle):
    """A callback that runs only while its process does."""

    __slots__ = ()
    _context: contextvars.Context

    def _run(self) -> None:
        process = self._context.get(PROCESS)
        if process is None or (process.alive and process.held is None):
            super()._run()
        elif process.held is not None:
            process.held.append(self)


class _SimTimer(asyncio.TimerHandle):
    """A timer; of two that are due at the same time, the one made first runs first."""

    __slots__ = ("birth",)
    _context: contextvars.Context
    _when: float

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SimLoop,
        context: contextvars.Context | None,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self.birth = loop.next_birth()

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, _SimTimer):
            return NotImplemented
        return (self._when, self.birth) < (other._when, other.birth)

    def _run(self) -> None:
        process = self._context.get(PROCESS)
        if process is None or (process.alive and process.held is None):
            super()._run()
        elif process.held is not None:
            process.held.append(self)


class SimLoop(asyncio.BaseEventLoop):
    """The loop of one world."""

    _ready: collections.deque[asyncio.Handle]
    _scheduled: list[_SimTimer]

    def __init__(self) -> None:
        """Make a loop whose time is 0 seconds."""
        super().__init__()
        self.set_debug(False)
        self.failures: list[Failure] = []
        self.at_rest: Callable[[], None] | None = None
        """Called whenever all is done that can be done now, before time moves; it must not make work."""
        self.steps = 0
        self._now_s = 0.0
        self._births = 0
        self._steps_here = 0
        self._cancelled_timers = 0
        self.set_task_factory(_make_task)
        self.set_exception_handler(_collect)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._now_s

    def next_birth(self) -> int:
        """Return a number larger than all before."""
        self._births += 1
        return self._births

    def create_future(self) -> SimFuture:
        """Return a future that hashes by birth."""
        return SimFuture(loop=self)

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Queue a callback behind all that are ready."""
        self._check_closed()  # type: ignore[attr-defined]
        handle = _SimHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Queue a callback for the time `when`."""
        self._check_closed()  # type: ignore[attr-defined]
        timer = _SimTimer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Queue a callback for `delay` seconds from now."""
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def put_back(self, handles: list[asyncio.Handle]) -> None:
        """Make handles ready that a pause held back."""
        self._ready.extend(handles)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> SimFuture:  # type: ignore[override]
        """Refuse: a thread is no door, and its timing would differ from run to run."""
        raise RuntimeError(
            f"{func!r} was sent to a thread: in the simulation only Disk.run may do that"
        )

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` until it returns; a deadlock raises and says who waits."""
        return self.run_until_complete(main)

    def waiting(self) -> str:
        """Return one line for each task that has not finished: whose it is and where it waits."""
        tasks = sorted(
            (task for task in asyncio.all_tasks(self) if isinstance(task, SimTask)),
            key=lambda task: task.birth,
        )
        return "\n".join(
            f"{task.process.name if task.process else 'world'} {task.get_name()} {task.where()}"
            for task in tasks
            if task.process is None or task.process.alive
        )

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > 200 and self._cancelled_timers > len(self._scheduled) // 2:
            self._scheduled = [timer for timer in self._scheduled if not timer.cancelled()]
            heapq.heapify(self._scheduled)
            self._cancelled_timers = 0

    def _run_once(self) -> None:
        ready = self._ready
        if not ready:
            self._jump()
        while self._scheduled and self._scheduled[0]._when <= self._now_s:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer.cancelled():
                ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                self._steps_here += 1
                handle._run()
        if self._steps_here > STEPS_IN_ONE_INSTANT:
            raise Livelock(f"time stands still at {self._now_s:.6f} s\n{self.waiting()}")

    def _jump(self) -> None:
        while self._scheduled and self._scheduled[0].cancelled():
            heapq.heappop(self._scheduled)
            self._cancelled_timers = max(0, self._cancelled_timers - 1)
        if self._stopping:  # type: ignore[attr-defined]
            return
        if not self._scheduled:
            raise Deadlock(f"nobody can go on at {self._now_s:.6f} s\n{self.waiting()}")
        if self._scheduled[0]._when > self._now_s:
            if self.at_rest is not None:
                self.at_rest()
            self._now_s = self._scheduled[0]._when
            self.steps += self._steps_here
            self._steps_here = 0


def _collect(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimLoop)
    task = context.get("task") or context.get("future")
    process = task.process if isinstance(task, SimTask | SimFuture) else _process_of(context)
    if process is not None and process.killed:
        return
    who = process.name if process is not None else "world"
    loop.failures.append(
        Failure(loop.time(), who, str(context.get("message")), context.get("exception"))
    )


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> SimTask:
    assert isinstance(loop, SimLoop)
    return SimTask(coroutine, loop=loop, **options)


def _process_of(context: dict[str, Any]) -> Process | None:
    handle = context.get("handle")
    if isinstance(handle, _SimHandle | _SimTimer):
        return handle._context.get(PROCESS)
    return PROCESS.get()
