"""A run of a program on a node, and the tasks and callbacks that belong to it.

Every callback of the loop carries a `contextvars.Context`, and the process it belongs to is a variable in it. So a
process can be killed between two steps (its callbacks are dropped) or paused (they are held back), and the code of
the process learns as little of it as under `kill -9` and `kill -STOP`.
"""

from __future__ import annotations

import asyncio
import contextvars
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from kavka.simulation.scheduling import ScheduledCall, SchedulingLoop

PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("PROCESS", default=None)
"""The running process; None for the world itself."""


class ProcessCrashed(BaseException):
    """Unwinds code of a process that was killed in the middle of a call; no policy of the product may catch it."""


class Process:
    """A run of a program, from its start until it ends or is killed."""

    def __init__(self, name: str, loop: SchedulingLoop) -> None:
        """Make a running process called `name`; `enter` gives it something to do."""
        self.name = name
        self.loop = loop
        self.alive = True
        self.killed = False
        self.may_leave_tasks = False
        """True if it ends because it cannot continue, so that unfinished work is no finding."""
        # Invariant: None unless paused; then what would have run meanwhile, in order.
        self.held: list[ScheduledCall] | None = None
        self._pauses = 0
        self._ended: asyncio.Future[None] = loop.create_future()
        self.at_end: list[Callable[[], None]] = []
        self.writes_left: int | None = None
        self._tasks: list[SimTask] = []
        self._sweep_at = 64
        self.context = contextvars.Context()
        self.context.run(PROCESS.set, self)

    @property
    def ended(self) -> asyncio.Future[None]:
        """Return a future that is done when the process is; it may be cancelled."""
        return asyncio.shield(self._ended)

    def enter(self, callback: Callable[..., object], *args: Any) -> None:
        """Schedule `callback` for the next step of the process."""
        self.loop.call_soon(callback, *args, context=self.context.copy())

    def adopt(self, task: SimTask) -> None:
        """Remember a task that the process made."""
        self._tasks.append(task)
        if len(self._tasks) >= self._sweep_at:
            self._sweep_at = 2 * len(self.pending()) + 64

    def pending(self) -> list[SimTask]:
        """Return the tasks that have not finished, oldest first, and let go of the others."""
        self._tasks = [task for task in self._tasks if not task.done()]
        return self._tasks

    def end(self, *, killed: bool) -> None:
        """Stop permanently: no code of this process runs after it, and its I/O is closed."""
        if not self.alive:
            return
        self.alive = False
        self.killed = killed
        self.held = None
        for action in self.at_end:
            action()
        self.at_end.clear()
        if not self.loop.is_closed():
            self._ended.set_result(None)

    def crash(self) -> NoReturn:
        """End in the middle of a call, as by `kill -9`, and unwind to the loop."""
        self.end(killed=True)
        raise ProcessCrashed(self.name)

    def pause(self) -> None:
        """Defer every step until `resume`, as a stopped process or a long collection does; pauses add up."""
        if self.alive:
            self._pauses += 1
            if self.held is None:
                self.held = []

    def resume(self) -> None:
        """Undo one `pause`; after the last one, run what was held back, in its order."""
        self._pauses -= 1
        if self._pauses == 0 and self.alive:
            held, self.held = self.held, None
            if held:
                self.loop.put_back(held)

    def release(self) -> None:
        """Close the coroutines of an ended process. The world does it last: `finally` blocks run, on closed I/O."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # coroutines that never began
            for task in list(self.pending()):
                task.cancel_silently()
                coroutine = task.get_coro()
                try:
                    if isinstance(coroutine, Coroutine):
                        coroutine.close()
                except (Exception, ProcessCrashed):  # noqa: BLE001 - the code of the dead has no say any more
                    continue

    def check_alive(self) -> None:
        """Raise ProcessCrashed when code of a crashed process uses its I/O."""
        if not self.alive:
            raise ProcessCrashed(self.name)


class _OrderedByCreation:
    """Hashes by a birth number instead of an address, so that sets of tasks and futures iterate alike in every run."""

    creation_number: int

    def __hash__(self) -> int:
        return self.creation_number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimFuture(_OrderedByCreation, asyncio.Future[Any]):
    """A future of the simulated loop."""

    def __init__(self, *, loop: SchedulingLoop) -> None:
        """Make a pending future."""
        self.creation_number = loop.next_creation_number()
        self.process = PROCESS.get()
        super().__init__(loop=loop)


class SimTask(_OrderedByCreation, asyncio.Task[Any]):
    """A task of the simulated loop; it knows the process that made it."""

    _log_destroy_pending: bool

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        *,
        loop: SchedulingLoop,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **more: Any,
    ) -> None:
        """Start `coroutine`; its default name is its number in this loop, not in the interpreter."""
        self.creation_number = loop.next_creation_number()
        self.process = PROCESS.get() if context is None else context.get(PROCESS)
        name = name or f"task-{self.creation_number}"
        super().__init__(coroutine, loop=loop, name=name, context=context, **more)
        if self.process is not None:
            self.process.adopt(self)

    def cancel_silently(self) -> None:
        """Cancel a task that never finishes, so that it is collected without a warning."""
        self._log_destroy_pending = False

    def set_name(self, name: object) -> None:
        """Rename the task; None, which Python 3.13 passes for tasks without a name, keeps the one it has."""
        if name is not None:
            super().set_name(name)

    def where(self) -> str:
        """Return the chain of coroutines down to the one that waits, each with its line."""
        steps: list[str] = []
        awaited: Any = self.get_coro()
        while awaited is not None and len(steps) < 30:
            frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
            name = getattr(awaited, "__qualname__", type(awaited).__name__)
            steps.append(f"{name}:{frame.f_lineno}" if frame is not None else name)
            awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
        return " > ".join(steps)
