"""A run of one seed: a broker, its clients, a nemesis; then everything heals and the audit decides.

set up     broker started, topics made
safety     clients work while the nemesis does what the fault model allows; invariants are checked at each event
liveness   everything is healed; all work must end within a bound, because nothing may wait for ever
audit      every partition is read from start to end and compared with what was told
stop       the broker stops cleanly and leaves nothing behind
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from kavka.testing.simulation.checker import Checker
from kavka.testing.simulation.cluster import BrokerNode
from kavka.testing.simulation.faults import Durability
from kavka.testing.simulation.invariants import for_model
from kavka.testing.simulation.load.administering import AdminNode, SetUpNode
from kavka.testing.simulation.load.client import ClientNode
from kavka.testing.simulation.load.grouping import MemberNode
from kavka.testing.simulation.load.producing import ProducerNode
from kavka.testing.simulation.load.reading import AuditorNode, ReaderNode
from kavka.testing.simulation.nemesis import Nemesis
from kavka.testing.simulation.report import Report
from kavka.testing.simulation.scenario import BROKER, Scenario
from kavka.testing.simulation.world import World

_LIMIT_S = 3600.0
_SET_UP_S = 60.0
_STOP_S = 120.0


class BrokerRun:
    """A run of `seed`; `run` plays it once."""

    def __init__(self, seed: int, scenario: Scenario | None = None) -> None:
        """Build the world of the seed. A test may pass a scenario of its own."""
        self.world = World(seed)
        self.scenario = scenario or Scenario.of(seed)
        self.world.network.weather = self.scenario.weather
        self.checker = Checker(for_model(self.scenario.model), self.world.story)
        self.broker = BrokerNode(self.world, BROKER, self.scenario.broker)
        self._nemesis = Nemesis(self.world, self.scenario, self.broker, self.checker)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def run(self) -> Report:
        """Play the run. Return what was found."""
        story = self.world.story
        story.tell("scenario", str(self.scenario))
        broken: list[str] = []
        try:
            self.world.run(self._play(), limit_s=_LIMIT_S)
        except (TimeoutError, RuntimeError) as stuck:
            story.tell("world", f"FAILURE: {stuck}")
            broken.append(f"NothingWaitsForEver (everything ends after healing): {stuck}")
        broken += map(str, self.checker.broken)
        return Report.of(self.world, broken, self.checker.counts)

    async def _play(self) -> None:
        try:
            self._begin("broker", self.broker.keep_running())
            set_up = self._node(SetUpNode, "set-up")
            await self._bounded("set up", _SET_UP_S, [self._begin("set-up", set_up.keep_running())])
            await self._work()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _work(self) -> None:
        scenario = self.scenario
        producers = [self._node(ProducerNode, f"producer-{n}") for n in range(scenario.producers)]
        members = [self._node(MemberNode, f"member-{n}") for n in range(scenario.group_members)]
        readers = [self._node(ReaderNode, f"reader-{n}") for n in range(scenario.readers)]
        admins = [self._node(AdminNode, "admin")] if scenario.has_admin else []
        finite = self._start_all([*producers, *admins])
        endless = self._start_all([*members, *readers])
        await self._until_broken(self._nemesis.rage())
        await self._nemesis.heal()
        await self._bounded("the work", scenario.liveness_s, finite)
        auditor = self._node(AuditorNode, "auditor")
        await self._bounded(
            "the audit", scenario.liveness_s, [self._begin("audit", auditor.keep_running())]
        )
        if scenario.model.durability is Durability.EVERYTHING_ACKNOWLEDGED:
            for member in members:
                member.goal = auditor.ends
        for client in [*members, *readers]:
            client.quits.set()
        await self._bounded("the readers and members", scenario.liveness_s, endless)
        await self._stop_broker()

    async def _stop_broker(self) -> None:
        if self.checker.stop.is_set():
            return
        self.broker.keeps_running = False
        self.broker.stop()
        await self._bounded("the broker's stop", _STOP_S, [self._tasks["broker"]])

    def _node(self, kind: Callable[..., Any], name: str) -> Any:
        return kind(self.world, name, self.scenario, self.checker)

    def _start_all(self, clients: Iterable[ClientNode]) -> list[asyncio.Task[None]]:
        return [self._begin(client.name, client.keep_running()) for client in clients]

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._tasks[name] = asyncio.ensure_future(work)
        return task

    async def _until_broken(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work`, or stop it at the first violation."""
        await self._first(work, self.checker.stop.wait())

    async def _bounded(self, what: str, seconds: float, tasks: list[asyncio.Task[None]]) -> None:
        """Wait for the tasks, or for a violation. Raise TimeoutError, saying who waits, when it takes too long."""
        if not tasks or self.checker.stop.is_set():
            return
        done = await self._first(_all(tasks), self.checker.stop.wait(), asyncio.sleep(seconds))
        if not done and not self.checker.stop.is_set():
            raise TimeoutError(
                f"{what} did not end within {seconds} s after healing\n{self.world.loop.waiting()}"
            )

    async def _first(
        self, work: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, object]
    ) -> bool:
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
