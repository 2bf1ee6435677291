"""The nemesis of a cluster: faults of brokers, links, sessions and disks, within the fault model of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import product

from kavka.simulation.brokers.health import Health
from kavka.simulation.brokers.registries import RegistryServerNode, SimulatedRegistry
from kavka.simulation.brokers.scenario import ClusterScenario, broker_name
from kavka.simulation.checker import Checker
from kavka.simulation.cluster import BrokerNode
from kavka.simulation.events import PowerLost
from kavka.simulation.faults import Fault
from kavka.simulation.nemesis import Nemesis
from kavka.simulation.world import Node, World

_ON_CLIENTS = (Fault.KILL_CLIENT, Fault.PAUSE_CLIENT)


class ClusterNemesis(Nemesis):
    """A nemesis with several victims.

    Under the model *power* a host loses power only while everything is in sync, and until it is again only clients
    are harmed: what else could fail is not promised.
    """

    def __init__(
        self,
        world: World,
        scenario: ClusterScenario,
        brokers: Sequence[BrokerNode],
        checker: Checker,
        registry: SimulatedRegistry,
        health: Health,
    ) -> None:
        """Take the victims of the faults."""
        super().__init__(world, scenario, brokers, checker)
        self._registry = registry
        self._health = health
        self._is_careful = scenario.model.name == "power"

    async def heal(self) -> None:
        """End everything that lasts."""
        await super().heal()
        for broker in self._brokers:
            self._registry.heal(broker.node.name)
            self._registry.slow(broker.node.name, on=False)
        if isinstance(self._registry, RegistryServerNode):
            self._registry.down_s = (0.05, 0.3)

    def _do(self, fault: Fault) -> None:
        if self._is_careful and fault not in _ON_CLIENTS and self._health.first_problem():
            return
        victim = self._victim()
        name = victim.node.name
        match fault:
            case Fault.KILL_CONTROLLER:
                self._controller().node.kill()
            case Fault.KILL_ALL:
                for each in self._brokers:
                    each.node.kill()
            case Fault.DEPOSE_CONTROLLER:
                self._expire(self._controller().node.name)
            case Fault.EXPIRE_SESSION:
                self._expire(name)
            case Fault.CUT_REGISTRY | Fault.SLOW_REGISTRY:
                self._disturb_session(fault, name)
            case Fault.CUT_BROKERS | Fault.CUT_BROKERS_ONE_WAY | Fault.ISOLATE | Fault.SPLIT:
                self._cut_brokers(fault, name)
            case Fault.SLOW_BROKERS:
                self._slow_brokers(name)
            case Fault.KILL_REGISTRY:
                if isinstance(self._registry, RegistryServerNode):
                    self._registry.node.kill()
            case Fault.LOSE_POWER:
                victim.node.lose_power()
                if self._is_careful:
                    self._health.must_return(victim)
                else:
                    self._checker.observe(PowerLost(name))
            case _:
                super()._do(fault)

    def _client(self) -> Node | None:
        client = super()._client()
        is_registry = (
            isinstance(self._registry, RegistryServerNode) and client is self._registry.node
        )
        return None if is_registry else client

    def _controller(self) -> BrokerNode:
        number = self._registry.controller
        for broker in self._brokers:
            if broker.node.name == broker_name(number):
                return broker
        return self._victim()

    def _pause(self, node: Node) -> None:
        """Pause a process; a broker's session with a registry that is an object is silent meanwhile."""
        process = node.process
        is_broker = any(node is broker.node for broker in self._brokers)
        if process is None or not process.alive:
            return
        node.pause()
        if is_broker and not isinstance(self._registry, RegistryServerNode):
            self._registry.cut(node.name)

        def go_on() -> None:
            if node.process is process:
                if is_broker and not isinstance(self._registry, RegistryServerNode):
                    self._registry.heal(node.name)
                node.resume()

        self._later(go_on)

    def _expire(self, name: str) -> None:
        self._trace(f"ends the session of {name}")
        self._registry.expire(name)

    def _disturb_session(self, fault: Fault, name: str) -> None:
        if fault is Fault.SLOW_REGISTRY:
            self._trace(f"makes the way of {name} to the registry slow")
            self._registry.slow(name, on=True)
            self._later(lambda: self._registry.slow(name, on=False))
            return
        self._trace(f"cuts {name} off the registry")
        process = next(b.node.process for b in self._brokers if b.node.name == name)
        self._registry.cut(name)

        def heal() -> None:
            still = next(b.node.process for b in self._brokers if b.node.name == name) is process
            if still or isinstance(self._registry, RegistryServerNode):
                self._trace(f"lets {name} reach the registry")
                self._registry.heal(name)

        self._later(heal)

    def _cut_brokers(self, fault: Fault, name: str) -> None:
        names = [broker.node.name for broker in self._brokers]
        others = [other for other in names if other != name]
        match fault:
            case Fault.ISOLATE:
                ones, rest, one_way = [name], others, self._source.random() < 0.3
            case Fault.SPLIT:
                self._source.shuffle(names)
                half = len(names) // 2
                ones, rest, one_way = names[:half], names[half:], False
            case _:
                ones, rest = [name], [self._source.choice(others)]
                one_way = fault is Fault.CUT_BROKERS_ONE_WAY
        pairs = list(product(ones, rest))
        if one_way and self._source.random() < 0.5:
            pairs = [(rest_one, one) for one, rest_one in pairs]
        self._cut_pairs(pairs, one_way=one_way)

    def _slow_brokers(self, name: str) -> None:
        """Make the links between a broker and all others slow, so that its followers, and it, fall behind."""
        network = self._world.network
        slowness = self._source.choice([10.0, 100.0])
        others = [broker.node.name for broker in self._brokers if broker.node.name != name]
        links = [network.link(*pair) for other in others for pair in ((name, other), (other, name))]
        self._trace(f"makes the links of {name} to other brokers {slowness:g} times slower")
        for link in links:
            link.slowness = slowness

        def heal() -> None:
            for link in links:
                link.slowness = 1.0

        self._later(heal)

    def _cut_pairs(self, pairs: list[tuple[str, str]], *, one_way: bool) -> None:
        network = self._world.network
        shown = ", ".join(f"{source}{'->' if one_way else '-'}{target}" for source, target in pairs)
        self._trace(f"cuts brokers {shown}")
        for source, target in pairs:
            network.cut(source, target, both_ways=not one_way)

        def heal() -> None:
            self._trace(f"heals brokers {shown}")
            for source, target in pairs:
                network.link(source, target).heal()
                if not one_way:
                    network.link(target, source).heal()

        self._later(heal)


async def until_healthy(health: Health, seconds: float) -> None:
    """Wait until nothing is wrong. Raise TimeoutError, which says what still is."""
    wrong = health.first_problem()
    for _ in range(int(seconds * 10)):
        if not wrong:
            return
        await asyncio.sleep(0.1)
        wrong = health.first_problem()
    raise TimeoutError(f"the cluster is not whole {seconds} s after healing: {wrong}")
