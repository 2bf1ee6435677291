"""Parts of a shell around a machine of `core`: its timer, and the tasks that perform its effects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

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
        """Schedule the function for `due_ms` at the latest; None is never."""
        if due_ms is None or (self._timer is not None and self._ends_ms <= due_ms):
            return
        self.cancel()
        delay_ms = max(0, due_ms - self._clock.tick_ms())
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._end)
        self._ends_ms = due_ms

    @property
    def is_set(self) -> bool:
        """Return whether the function will be called."""
        return self._timer is not None

    def _end(self) -> None:
        self._timer = None
        self._tick()

    def cancel(self) -> None:
        """Call the function no more, until `set`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class EffectTasks:
    """The tasks that perform a machine's effects; all end with the shell."""

    def __init__(self) -> None:
        """Start without a task."""
        # A dict, not a set: the order in which they are cancelled can be seen.
        self._tasks: dict[asyncio.Task[None], None] = {}

    def __len__(self) -> int:
        """Return how many are not done."""
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task and keep it until it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def stop(self) -> None:
        """Cancel all tasks, oldest first, and wait for their ends."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
