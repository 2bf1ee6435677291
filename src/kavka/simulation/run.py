"""A run of one seed: a broker, its clients, a nemesis; then everything heals and the audit decides.

set up     broker started, topics made
safety     clients work while the nemesis does what the fault model allows; invariants are checked at each event
liveness   everything is healed; all work must end within a bound, because no call may wait without limit
audit      every partition is read from start to end and compared with the acknowledgements
stop       the broker stops cleanly and leaves nothing behind
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from kavka.simulation.checker import Checker
from kavka.simulation.cluster import BrokerNode
from kavka.simulation.faults import Durability
from kavka.simulation.invariants import for_model
from kavka.simulation.load.admins import AdminNode, SetUpNode
from kavka.simulation.load.client import ClientNode
from kavka.simulation.load.group_members import MemberNode
from kavka.simulation.load.producers import ProducerNode
from kavka.simulation.load.readers import AuditorNode, ReaderNode
from kavka.simulation.nemesis import Nemesis
from kavka.simulation.report import Report
from kavka.simulation.scenario import BROKER, Scenario
from kavka.simulation.simulation_run import SimulationRun
from kavka.simulation.world import World

_LIMIT_S = 3600.0
_SET_UP_S = 60.0
_STOP_S = 120.0


class BrokerRun(SimulationRun):
    """A run of `seed`; `run` plays it once."""

    def __init__(self, seed: int, scenario: Scenario | None = None) -> None:
        """Build the world of the seed. A test may pass a scenario of its own."""
        world = World(seed)
        self.scenario = scenario or Scenario.of(seed)
        super().__init__(world, Checker(for_model(self.scenario.model), world.trace))
        world.network.weather = self.scenario.weather
        self.broker = BrokerNode(world, BROKER, self.scenario.broker)
        self._nemesis = Nemesis(world, self.scenario, [self.broker], self.checker)

    def run(self) -> Report:
        """Play the run. Return what was found."""
        return self.play(str(self.scenario), self._play(), _LIMIT_S)

    async def _play(self) -> None:
        try:
            self.start_task("broker", self.broker.keep_running())
            set_up = self._node(SetUpNode, "set-up")
            await self.bounded(
                "set up", _SET_UP_S, [self.start_task("set-up", set_up.keep_running())]
            )
            await self._work()
        finally:
            await self.end_all()

    async def _work(self) -> None:
        scenario = self.scenario
        producers = [self._node(ProducerNode, f"producer-{n}") for n in range(scenario.producers)]
        members = [self._node(MemberNode, f"member-{n}") for n in range(scenario.group_members)]
        readers = [self._node(ReaderNode, f"reader-{n}") for n in range(scenario.readers)]
        admins = [self._node(AdminNode, "admin")] if scenario.has_admin else []
        finite = self._start_all([*producers, *admins])
        endless = self._start_all([*members, *readers])
        await self.run_until_broken(self._nemesis.run())
        await self._nemesis.heal()
        await self.bounded("the work", scenario.liveness_s, finite)
        auditor = self._node(AuditorNode, "auditor")
        await self.bounded(
            "the audit", scenario.liveness_s, [self.start_task("audit", auditor.keep_running())]
        )
        if scenario.model.durability is Durability.EVERYTHING_ACKNOWLEDGED:
            for member in members:
                member.goal = auditor.ends
        for client in [*members, *readers]:
            client.quits.set()
        await self.bounded("the readers and members", scenario.liveness_s, endless)
        await self._stop_broker()

    async def _stop_broker(self) -> None:
        if self.checker.stop.is_set():
            return
        self.broker.keeps_running = False
        self.broker.stop()
        await self.bounded("the broker's stop", _STOP_S, [self.tasks["broker"]])

    def _node(self, kind: Callable[..., Any], name: str) -> Any:
        return kind(self.world, name, self.scenario, self.checker)

    def _start_all(self, clients: Iterable[ClientNode]) -> list[asyncio.Task[None]]:
        return [self.start_task(client.name, client.keep_running()) for client in clients]
