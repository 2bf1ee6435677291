"""Common part of runs of one broker and of clusters: named tasks, time bounds, and the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kavka.simulation.checker import Checker
from kavka.simulation.report import Report
from kavka.simulation.world import World


class SimulationRun:
    """The hands of a run."""

    def __init__(self, world: World, checker: Checker) -> None:
        """Begin without anything in progress."""
        self.world = world
        self.checker = checker
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def play(self, scenario: str, play: Coroutine[Any, Any, None], limit_s: float) -> Report:
        """Play to the end. Return what was found."""
        trace = self.world.trace
        trace.add("scenario", scenario)
        broken: list[str] = []
        try:
            self.world.run(play, limit_s=limit_s)
        except (TimeoutError, RuntimeError) as stuck:
            trace.add("world", f"FAILURE: {stuck}")
            broken.append(f"NothingWaitsForEver (everything ends after healing): {stuck}")
        broken += map(str, self.checker.broken)
        return Report.of(self.world, broken, self.checker.counts)

    def start_task(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start something; `end_all` ends it."""
        task = self.tasks[name] = asyncio.ensure_future(work)
        return task

    async def end_all(self) -> None:
        """End what was begun."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def run_until_broken(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`, or stop it at the first violation."""
        await first(work, self.checker.stop.wait())

    async def bounded(self, what: str, seconds: float, tasks: list[asyncio.Task[None]]) -> None:
        """Wait for the tasks, or for a violation. Raise TimeoutError, with the waiting tasks, after too long."""
        if not tasks or self.checker.stop.is_set():
            return
        done = await first(_all(tasks), self.checker.stop.wait(), asyncio.sleep(seconds))
        if not done and not self.checker.stop.is_set():
            raise TimeoutError(
                f"{what} did not end within {seconds} s after healing: {self.unfinished_tasks()}"
            )

    def unfinished_tasks(self) -> str:
        """Return the waiting tasks and their stacks."""
        return self.world.loop.waiting()


async def first(work: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, object]) -> bool:
    """Wait for the first to end. Return whether that was `work`."""
    tasks: list[asyncio.Task[Any]] = [asyncio.ensure_future(each) for each in (work, *others)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    is_done = tasks[0].done()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if is_done:
        tasks[0].result()
    return is_done


async def _all(tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks)
