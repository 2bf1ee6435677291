"""An asyncio event loop in virtual time.

When nothing is ready, time jumps to the next timer. Nothing is shuffled: asyncio promises that `call_soon` is first in,
first out, so all randomness comes from how long disk and network take. What makes a run the same in every process:
timers of equal time run in the order they were made, tasks and futures hash by birth (`process.py`), and
no callback comes from another thread.
"""

from __future__ import annotations

import asyncio
import heapq
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from kavka.simulation.process import PROCESS, Process, SimFuture, SimTask
from kavka.simulation.scheduling import ScheduledCall, SchedulingLoop

T = TypeVar("T")

STEPS_IN_ONE_INSTANT = 200_000
"""More steps than this without time moving are a loop that never ends."""


class Deadlock(RuntimeError):
    """No callback is ready and no timer is set, but tasks still wait."""


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


class SimLoop(SchedulingLoop):
    """The loop of one world."""

    def __init__(self) -> None:
        """Make a loop at 0 virtual seconds."""
        super().__init__()
        self.failures: list[Failure] = []
        self.at_rest: Callable[[], None] | None = None
        """Called whenever all is done that can be done now, before time moves; it must not make work."""
        self.steps = 0
        self._steps_here = 0
        self.set_task_factory(_make_task)
        self.set_exception_handler(_collect)

    def create_future(self) -> SimFuture:
        """Return a future that hashes by birth."""
        return SimFuture(loop=self)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> SimFuture:  # type: ignore[override]
        """Refuse: a thread is not simulated, and its timing would differ from run to run."""
        raise RuntimeError(
            f"{func!r} was sent to a thread: in the simulation only Disk.run may do that"
        )

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` until it returns; raise Deadlock with the waiting tasks."""
        return self.run_until_complete(main)

    def waiting(self) -> str:
        """Return one line for each unfinished task: its process and the place where it waits."""
        tasks = sorted(
            (task for task in asyncio.all_tasks(self) if isinstance(task, SimTask)),
            key=lambda task: task.creation_number,
        )
        return "\n".join(
            f"{task.process.name if task.process else 'world'} {task.get_name()} {task.where()}"
            for task in tasks
            if task.process is None or task.process.alive
        )

    def _run_once(self) -> None:
        """Run iterations until the loop is to stop. One in each call would do; most of a run is spent here."""
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
                    except BaseException as error:  # noqa: BLE001 - asyncio reports it and continues, so do we
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
            raise Deadlock(f"deadlock at {self.now_s:.6f} s\n{self.waiting()}")
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
