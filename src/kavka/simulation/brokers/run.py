"""A run of one seed with a whole cluster: clients work, the nemesis injects faults, all heals, the audit decides.

set up     registry and brokers started, topics made
safety     clients work while faults happen; invariants see each event, and all replicas at almost every moment
liveness   everything is healed; the cluster must become whole, and all work must end, within a bound
audit      every partition is read from its leader, all replicas are compared
stop       the brokers stop cleanly, one after the other, and leave nothing behind
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kavka.simulation.brokers.admins import (
    ClusterAdminNode,
    ClusterSetUpNode,
    LiftNode,
    ThrottleNode,
)
from kavka.simulation.brokers.health import Health
from kavka.simulation.brokers.nemesis import ClusterNemesis, until_healthy
from kavka.simulation.brokers.observer import ClusterObserver
from kavka.simulation.brokers.readers import ClusterAuditorNode, ClusterReaderNode
from kavka.simulation.brokers.registries import (
    InProcessRegistry,
    Observe,
    RegistryServerNode,
    SimulatedRegistry,
)
from kavka.simulation.brokers.scenario import ClusterScenario, broker_name
from kavka.simulation.brokers.throttling import LateProducerNode
from kavka.simulation.brokers.transactional_clients import (
    CommittedReaderNode,
    TransactionAuditorNode,
    TransactionNode,
)
from kavka.simulation.brokers.two_phase import Arbiter, TwoPhaseNode
from kavka.simulation.brokers.unclean import UncleanElections
from kavka.simulation.checker import Checker
from kavka.simulation.cluster import BrokerNode
from kavka.simulation.faults import Durability
from kavka.simulation.invariants import for_cluster
from kavka.simulation.load.client import ClientNode
from kavka.simulation.load.group_members import MemberNode
from kavka.simulation.load.producers import ProducerNode
from kavka.simulation.report import Report
from kavka.simulation.simulation_run import SimulationRun
from kavka.simulation.world import World

_LIMIT_S = 3600.0
_SET_UP_S = 120.0
_STOP_S = 180.0
_HEALTHY_S = 120.0
_SLOW_S = 0.05
"""Models in which followers may fall out of sync because of the latency alone."""
_THROTTLED_S = 60.0


class ClusterRun(SimulationRun):
    """A run of `seed`; `run` plays it once."""

    def __init__(
        self, seed: int, scenario: ClusterScenario | None = None, brokers: int | None = None
    ) -> None:
        """Build the world of the seed. A test may pass a scenario of its own."""
        world = World(seed)
        self.scenario = scenario or ClusterScenario.of_cluster(seed, brokers)
        invariants = for_cluster(
            self.scenario.model, two_phase=self.scenario.two_phase, unclean=self.scenario.unclean
        )
        super().__init__(world, Checker(invariants, world.trace))
        world.network.weather = self.scenario.weather
        elections = UncleanElections(world, self.checker, self.scenario.log_dirs)
        self.registry = elections.registry = self._registry(elections.observe)
        self.brokers = [
            BrokerNode(
                world, broker_name(number), self.scenario.settings(number), self.registry.session
            )
            for number in self.scenario.numbers
        ]
        elections.brokers = dict(zip(self.scenario.numbers, self.brokers, strict=True))
        if self.scenario.unclean:
            for broker in self.brokers:
                broker.down_s = (0.05, 8.0)  # so that others must lead
        self._observer = ClusterObserver(world, self.brokers, self.registry, self.checker)
        self._observer.expects_throttle = self.scenario.throttles
        self._health = Health(self.brokers, self.registry, self._observer)
        self._nemesis = ClusterNemesis(
            world, self.scenario, self.brokers, self.checker, self.registry, self._health
        )

    def _registry(self, observe: Observe) -> SimulatedRegistry:
        if self.scenario.serves_registry:
            return RegistryServerNode(self.world, observe)
        timeout_ms = int(self.scenario.broker["zookeeper.session.timeout.ms"])
        return InProcessRegistry(self.world, observe, timeout_ms, self.scenario.registry_delay_ms)

    def run(self) -> Report:
        """Play the run. Return what was found."""
        return self.play(self.scenario.describe(), self._play(), _LIMIT_S)

    def unfinished_tasks(self) -> str:
        """Report what is not healthy, and the stacks of waiting tasks."""
        wrong = self._health.first_problem() or "the cluster is whole"
        return f"{wrong}\n{super().unfinished_tasks()}"

    async def _play(self) -> None:
        try:
            if isinstance(self.registry, RegistryServerNode):
                self.start_task("registry", self.registry.keep_running())
            for broker in self.brokers:
                self.start_task(broker.node.name, broker.keep_running())
            set_up = self._node(ClusterSetUpNode, "set-up")
            await self.bounded(
                "set up", _SET_UP_S, [self.start_task("set-up", set_up.keep_running())]
            )
            await self._work()
        finally:
            await self.end_all()

    async def _work(self) -> None:
        scenario = self.scenario
        producers = self._nodes(ProducerNode, "producer", scenario.producers)
        members = self._nodes(MemberNode, "member", scenario.group_members)
        readers = self._nodes(ClusterReaderNode, "reader", scenario.readers)
        admins = self._nodes(ClusterAdminNode, "admin", scenario.admins)
        tills, committed_readers = self._transactional()
        finite = self.start_all([*producers, *admins, *tills])
        endless = self.start_all([*members, *readers, *committed_readers])
        await self.run_until_broken(self._nemesis.run())
        await self._nemesis.heal()
        await self.bounded("the work", scenario.liveness_s, finite)
        await self._wait_until_healthy()
        if scenario.throttles and scenario.weather.latency_s < _SLOW_S:
            await self._work_throttled()
        auditor = self._node(ClusterAuditorNode, "auditor")
        audit = self.start_task("audit", auditor.keep_running())
        await self.bounded("the audit", scenario.liveness_s, [audit])
        if scenario.payments:
            transactions = self._node(TransactionAuditorNode, "transactions-auditor")
            audit = self.start_task("transactions", transactions.keep_running())
            await self.bounded("the audit of transactions", scenario.liveness_s, [audit])
        if scenario.model.durability is Durability.EVERYTHING_ACKNOWLEDGED:
            for member in members:
                member.goal = {
                    partition: end
                    for partition, end in auditor.ends.items()
                    if not any(partition in admin.cut for admin in admins)
                }
        for client in [*members, *readers, *committed_readers]:
            client.quits.set()
        await self.bounded("the readers and members", scenario.liveness_s, endless)
        await self._wait_until_healthy()
        await self._compare()
        await self._stop()

    def _transactional(self) -> tuple[list[ClientNode], list[ClientNode]]:
        """Make those that work in transactions, and those that read what they commit."""
        scenario = self.scenario
        arbiter = Arbiter(self.world, self.checker)

        def till(number: int, rival: int) -> ClientNode:
            arguments = self.world, f"till-{number}-{rival}", scenario, self.checker, number
            return (
                TwoPhaseNode(*arguments, arbiter)
                if scenario.two_phase
                else TransactionNode(*arguments)
            )

        tills = [
            till(number, rival)
            for number in range(scenario.transactional_ids)
            for rival in range(scenario.rivals)
        ]
        return tills, self._nodes(CommittedReaderNode, "committed-reader", 1 if tills else 0)

    async def _work_throttled(self) -> None:
        """Write under the lowest throttle while all replicas are in sync, which must not be felt; then lift it."""
        for kind, name, seconds in (
            (ThrottleNode, "throttler", self.scenario.liveness_s),
            (LateProducerNode, "late-producer", _THROTTLED_S),
            (LiftNode, "lifter", self.scenario.liveness_s),
        ):
            work = self.start_task(name, self._node(kind, name).keep_running())
            await self.bounded(f"the work of {name}", seconds, [work])
        await self._wait_until_healthy()

    async def _wait_until_healthy(self) -> None:
        if not self.checker.stop.is_set():
            await self.run_until_broken(until_healthy(self._health, _HEALTHY_S))

    async def _compare(self) -> None:
        """Compare all replicas, once the last high watermark is known everywhere.

        A run that was stopped by a violation ends in the middle of its work, with replicas that differ.
        """
        for _ in range(100):
            if self.checker.stop.is_set():
                return
            if not self._health.replicas_differ():
                break
            await asyncio.sleep(0.1)
        else:
            raise TimeoutError(f"replicas never become equal: {self._health.replicas_differ()}")
        self._observer.observe()
        self._observer.compare()
        self._observer.audit()

    async def _stop(self) -> None:
        """Stop one broker after the other, so that each but the last hands over."""
        for broker in self.brokers:
            if self.checker.stop.is_set():
                return
            broker.keeps_running = False
            broker.stop()
            name = broker.node.name
            await self.bounded(f"the stop of {name}", _STOP_S, [self.tasks[name]])

    def _node(self, kind: Callable[..., Any], name: str) -> Any:
        return kind(self.world, name, self.scenario, self.checker)

    def _nodes(self, kind: Callable[..., Any], name: str, count: int) -> list[Any]:
        return [self._node(kind, f"{name}-{number}") for number in range(count)]

    def start_all(self, clients: list[ClientNode]) -> list[asyncio.Task[None]]:
        """Start clients."""
        return [self.start_task(client.name, client.keep_running()) for client in clients]
