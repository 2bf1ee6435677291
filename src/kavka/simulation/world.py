"""A world: nodes with disks and clocks, the network between them, and one loop that is all their time."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from kavka.simulation.environment import SimEnvironment
from kavka.simulation.host import Host
from kavka.simulation.loop import Failure, SimLoop
from kavka.simulation.network import SimNetwork
from kavka.simulation.process import Process, SimTask
from kavka.simulation.random_streams import SimRandom, stream
from kavka.simulation.trace import Trace

T = TypeVar("T")

Program = Callable[[SimEnvironment], Coroutine[Any, Any, object]]
"""The program of a node: it gets its environment, and its process ends when it returns."""


class Node(Host):
    """A machine of a world, and the program that runs on it."""

    def __init__(self, world: World, name: str, address: str) -> None:
        """Make a machine that is up and runs nothing."""
        super().__init__(world.seed, world.loop, name, address)
        self.world = world
        self.starts = 0
        self.process: Process | None = None

    @property
    def is_running(self) -> bool:
        """Return whether a program runs here."""
        return self.process is not None and self.process.alive

    def start(self, program: Program) -> Process:
        """Run `program` in a new process. A host that was off is switched on first."""
        assert not self.is_running, f"{self.name} runs already"
        self.switch_on()
        self.starts += 1
        process = Process(self.name, self.world.loop)
        self.process = process
        self.world.processes.append(process)
        source = stream(self.world.seed, f"chance of {process.name} {self.starts}")
        network = self.world.network.for_process(process, self)
        environment = SimEnvironment(self, process, SimRandom(source), network)
        self.world.trace.add(self.name, f"starts (run {self.starts})")
        process.enter(self._begin, process, program, environment)
        return process

    def kill(self) -> None:
        """Kill the process (`kill -9`): the page cache stays, the kernel closes its connections."""
        if self.process is not None and self.process.alive:
            self.world.trace.add(self.name, "is killed")
            self.process.end(killed=True)

    def kill_in_write(self, writes: int) -> None:
        """Kill the process in the middle of a write to the disk, `writes` after this moment."""
        if self.process is not None and self.process.alive:
            self.world.trace.add(self.name, f"will be killed {writes} writes from now")
            self.process.writes_left = writes
            self.process.at_end.append(lambda: self.world.trace.add(self.name, "is gone"))

    def lose_power(self) -> None:
        """Crash the host: unsynced data may be lost, and connections are not closed."""
        self.is_up = False
        if self.process is not None:
            self.process.end(killed=True)
        lost = self.disk.crash()
        self.world.trace.add(self.name, "loses power" + "".join(f"; lost {loss}" for loss in lost))

    def pause(self) -> None:
        """Stop the process for a while (`kill -STOP`)."""
        if self.process is not None and self.process.alive:
            self.world.trace.add(self.name, "stands still")
            self.process.pause()

    def resume(self) -> None:
        """Resume a paused process."""
        if self.process is not None and self.process.alive:
            self.world.trace.add(self.name, "goes on")
            self.process.resume()

    def jump_clock(self, by_ms: int) -> None:
        """Set the wall clock."""
        self.world.trace.add(self.name, f"has its clock set by {by_ms} ms")
        self.clock.jump(by_ms)

    def _begin(self, process: Process, program: Program, environment: SimEnvironment) -> None:
        task = self.world.loop.create_task(program(environment), name=f"main of {self.name}")
        task.add_done_callback(
            lambda done: self._ended(process, done), context=contextvars.Context()
        )

    def _ended(self, process: Process, task: asyncio.Task[object]) -> None:
        if process.alive:
            error = None if task.cancelled() else task.exception()
            left = [leak.where() for leak in process.pending()]
            process.end(killed=False)
            if error is not None:
                self.world.fail(self.name, "its program failed", error)
            if left and not process.may_leave_tasks:
                self.world.fail(self.name, f"left tasks behind: {left}", None)
            self.world.trace.add(self.name, "ends" if error is None else f"ends with {error!r}")


class World:
    """Everything that belongs to one seed."""

    def __init__(self, seed: int) -> None:
        """Make an empty world."""
        self.seed = seed
        self.loop = SimLoop()
        self.trace = Trace(self.loop.time)
        self.network = SimNetwork(seed, self.loop, self.trace, self.find)
        self.nodes: dict[str, Node] = {}
        self.processes: list[Process] = []

    @property
    def failures(self) -> list[Failure]:
        """Return unhandled exceptions, and those that the product logged as unexpected."""
        logged = [
            Failure(0.0, source, message, error) for source, message, error in self.trace.errors
        ]
        return self.loop.failures + logged

    def node(self, name: str) -> Node:
        """Return the node of this name, a new one at first."""
        if name not in self.nodes:
            self.nodes[name] = Node(self, name, f"10.0.0.{len(self.nodes) + 1}")
        return self.nodes[name]

    def find(self, host: str) -> Node | None:
        """Return the node that has this name or address."""
        for node in self.nodes.values():
            if host in (node.name, node.address):
                return node
        return None

    def fail(self, source: str, message: str, error: BaseException | None) -> None:
        """Note a failure of the run."""
        self.trace.add(source, f"FAILURE: {message}" + (f" ({error!r})" if error else ""))
        self.loop.failures.append(Failure(self.loop.time(), source, message, error))

    def run(self, main: Coroutine[Any, Any, T], *, limit_s: float = 86_400.0) -> T:
        """Run `main` as the world's own hand, then end everything.

        Raise TimeoutError after `limit_s` virtual seconds, with the waiting tasks.
        """
        try:
            with self.trace.capture(), _collecting_seldom():
                return self.loop.run(_limited(main, limit_s, self.loop))
        finally:
            self._end()

    def _end(self) -> None:
        for process in self.processes:
            process.pending()
        gc.collect()  # unretrieved exceptions are reported when their task is collected
        # What follows is no part of the run.
        self.loop.set_exception_handler(lambda loop, context: None)
        for process in self.processes:
            process.end(killed=True)
        for process in self.processes:
            process.release()
        for task in asyncio.all_tasks(self.loop):
            if isinstance(task, SimTask):
                task.cancel_silently()
        self.loop.close()


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Lower the frequency of garbage collection: nearly all that a run makes lives as long as its world.

    It took a seventh of the CPU of a cluster's seed (docs/explanation/simulation.md).
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(20_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


async def _limited(main: Coroutine[Any, Any, T], limit_s: float, loop: SimLoop) -> T:
    waiting = ""

    def look() -> None:
        nonlocal waiting
        waiting = loop.waiting()

    loop.call_later(limit_s - 1e-6, look)
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await main
    except TimeoutError as error:
        if limit.expired():
            raise TimeoutError(f"not done after {limit_s} virtual s\n{waiting}") from error
        raise
