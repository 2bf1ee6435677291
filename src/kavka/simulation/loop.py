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

from kavka.simulation.process import PROCESS, Process, SimFuture, SimTask

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
    """An unhandled exception: the task where it ended, and the exception."""

    at_s: float
    source: str
    message: str
    exception: BaseException | None

    def __str__(self) -> str:
        """Return the failure with its traceback."""
        lines = [f"{self.at_s:.6f} {self.source}: {self.message}"]
        if self.exception is not None:
            lines += traceback.format_exception(self.exception)
        return "\n".join(line.rstrip() for line in lines)


class ScheduledCall(asyncio.TimerHandle):
    """A callback that runs only while its process does; with a time it is a timer.

    It shares nothing with asyncio's handles but their methods: they ask for the debug mode at every turn.
    """

    __slots__ = ("args", "callback", "context", "due_s", "is_cancelled", "loop")

    def __init__(
        self,
        due_s: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SimLoop,
        context: contextvars.Context | None,
    ) -> None:
        self.due_s = due_s
        self.callback = callback
        self.args = args
        self.loop = loop
        self.context = contextvars.copy_context() if context is None else context
        self.is_cancelled = False

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            self.callback, self.args = _nothing, ()
            if self.due_s >= 0:
                self.loop.timer_cancelled()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.due_s

    def __repr__(self) -> str:
        return f"<step {self.callback!r}>"

    # Steps are told apart by who they are, as handles are; timers of asyncio are by their time.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


_NOW = -1.0
"""Due time of a call that is no timer."""


def _nothing() -> None:
    """Do what a cancelled step does."""


class SimLoop(asyncio.BaseEventLoop):
    """The loop of one world."""

    _ready: collections.deque[ScheduledCall]
    # A timer with its time and birth in front, so that comparing two of them is no call into Python.
    _scheduled: list[tuple[float, int, ScheduledCall]]

    def __init__(self) -> None:
        """Make a loop whose time is 0 seconds."""
        super().__init__()
        self.set_debug(False)
        self.failures: list[Failure] = []
        self.at_rest: Callable[[], None] | None = None
        """Called whenever all is done that can be done now, before time moves; it must not make work."""
        self.steps = 0
        self.now_s = 0.0
        """Current virtual time, as `time` returns it."""
        self._creation_count = 0
        self._steps_here = 0
        self._cancelled_timers = 0
        self.set_task_factory(_make_task)
        self.set_exception_handler(_collect)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self.now_s

    def next_creation_number(self) -> int:
        """Return a number larger than all before."""
        self._creation_count += 1
        return self._creation_count

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

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> SimFuture:  # type: ignore[override]
        """Refuse: a thread is not simulated, and its timing would differ from run to run."""
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
            key=lambda task: task.creation_number,
        )
        return "\n".join(
            f"{task.process.name if task.process else 'world'} {task.get_name()} {task.where()}"
            for task in tasks
            if task.process is None or task.process.alive
        )

    def timer_cancelled(self) -> None:
        """Learn that a timer will not run; when half of them will not, they are let go."""
        self._cancelled_timers += 1
        if self._cancelled_timers > 200 and self._cancelled_timers > len(self._scheduled) // 2:
            self._scheduled[:] = [timer for timer in self._scheduled if not timer[2].is_cancelled]
            heapq.heapify(self._scheduled)
            self._cancelled_timers = 0

    def _run_once(self) -> None:
        """Take turns until the loop is to stop. One in each call would do; most of a run is spent here."""
        ready, scheduled = self._ready, self._scheduled
        while True:
            if not ready:
                self._jump()
            while scheduled and scheduled[0][0] <= self.now_s:
                timer = heapq.heappop(scheduled)[2]
                if not timer.is_cancelled:
                    ready.append(timer)
            for _ in range(len(ready)):
                step = ready.popleft()
                if step.is_cancelled:
                    continue
                self._steps_here += 1
                process = step.context.get(PROCESS)
                if process is None or (process.alive and process.held is None):
                    try:
                        step.context.run(step.callback, *step.args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:  # noqa: BLE001 - asyncio reports it and goes on, so do we
                        self._report(step, error)
                elif process.held is not None:
                    process.held.append(step)
            if self._steps_here > STEPS_IN_ONE_INSTANT:
                raise Livelock(f"time stands still at {self.now_s:.6f} s\n{self.waiting()}")
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _report(self, step: ScheduledCall, error: BaseException) -> None:
        self.call_exception_handler(
            {"message": f"exception in {step}", "exception": error, "step": step}
        )

    def _jump(self) -> None:
        scheduled = self._scheduled
        while scheduled and scheduled[0][2].is_cancelled:
            heapq.heappop(scheduled)
            self._cancelled_timers = max(0, self._cancelled_timers - 1)
        if self._stopping:  # type: ignore[attr-defined]
            return
        if not scheduled:
            raise Deadlock(f"nobody can go on at {self.now_s:.6f} s\n{self.waiting()}")
        if scheduled[0][0] > self.now_s:
            if self.at_rest is not None:
                self.at_rest()
            self.now_s = scheduled[0][0]
            self.steps += self._steps_here
            self._steps_here = 0


def _collect(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimLoop)
    task = context.get("task") or context.get("future")
    process = task.process if isinstance(task, SimTask | SimFuture) else _process_of(context)
    if process is not None and process.killed:
        return
    source = process.name if process is not None else "world"
    loop.failures.append(
        Failure(loop.time(), source, str(context.get("message")), context.get("exception"))
    )


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> SimTask:
    assert isinstance(loop, SimLoop)
    return SimTask(coroutine, loop=loop, **options)


def _process_of(context: dict[str, Any]) -> Process | None:
    step = context.get("step")
    if isinstance(step, ScheduledCall):
        return step.context.get(PROCESS)
    return PROCESS.get()
