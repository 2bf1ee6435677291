"""The nemesis: it causes faults within the fault model of the run, and heals them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

from kavka.simulation.checker import Checker
from kavka.simulation.cluster import BrokerNode
from kavka.simulation.disk import DiskFaults
from kavka.simulation.events import PowerLost
from kavka.simulation.faults import Fault
from kavka.simulation.random_streams import stream
from kavka.simulation.scenario import Scenario
from kavka.simulation.world import Node, World

_FAULT_DURATION_S = (0.2, 6.0)


class Nemesis:
    """Causes one fault after the other until `heal`."""

    def __init__(
        self, world: World, scenario: Scenario, brokers: Sequence[BrokerNode], checker: Checker
    ) -> None:
        """Take the victims of the faults."""
        self._world = world
        self._scenario = scenario
        self._brokers = brokers
        self._checker = checker
        self._source: random.Random = stream(world.seed, "nemesis")
        self._calm = DiskFaults(
            delay_s=self._source.choice([0.0002, 0.005]), cold=self._source.choice([0.0, 0.2])
        )
        for broker in brokers:
            broker.node.disk.faults = replace(self._calm)
        self._endings: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Inject faults of the model until the safety phase is over."""
        if not self._scenario.model.faults:
            return
        end_s = self._world.loop.time() + self._scenario.safety_s
        while True:
            await asyncio.sleep(self._source.expovariate(1 / self._scenario.fault_interval_s))
            if self._world.loop.time() >= end_s:
                return
            self._do(self._source.choice(self._scenario.model.faults))

    async def heal(self) -> None:
        """End everything that lasts; what follows must succeed."""
        for ending in self._endings:
            ending.cancel()
        await asyncio.gather(*self._endings, return_exceptions=True)
        self._world.network.heal()
        self._world.network.weather.refuse = 0.0
        for broker in self._brokers:
            broker.node.disk.faults = replace(self._calm)
            broker.down_s = (0.05, 0.5)
        for node in self._world.nodes.values():
            if node.process is not None:
                node.process.writes_left = None
        self._world.trace.add("nemesis", "heals everything")

    def _do(self, fault: Fault) -> None:
        victim, client = self._victim(), self._client()
        broker = victim.node
        match fault:
            case Fault.KILL:
                broker.kill()
            case Fault.KILL_IN_WRITE:
                broker.kill_in_write(self._source.randrange(20))
            case Fault.STOP:
                victim.stop()
            case Fault.PAUSE:
                self._pause(broker)
            case Fault.LOSE_POWER:
                broker.lose_power()
                self._checker.observe(PowerLost(broker.name))
            case Fault.KILL_CLIENT if client is not None:
                client.kill()
            case Fault.PAUSE_CLIENT if client is not None:
                self._pause(client)
            case Fault.RESET:
                count = self._world.network.break_connections(
                    self._source.uniform(0.3, 1), self._source
                )
                self._trace(f"breaks {count} connections")
            case Fault.CUT | Fault.CUT_ONE_WAY | Fault.SLOW_LINK if client is not None:
                self._disturb_link(fault, broker, client)
            case Fault.SLOW_DISK | Fault.FAIL_DISK | Fault.FILL_DISK:
                self._disturb_disk(fault, broker)
            case Fault.COLD:
                self._trace("empties the page cache of the broker's host")
                broker.disk.evict_cached_pages()
            case Fault.JUMP_CLOCK:
                (client or broker).jump_clock(self._source.choice([-60_000, -1_000, 1_000, 60_000]))
            case _:
                pass  # there is no client to harm

    def _victim(self) -> BrokerNode:
        return self._brokers[0] if len(self._brokers) == 1 else self._source.choice(self._brokers)

    def _client(self) -> Node | None:
        running = [
            node
            for node in self._world.nodes.values()
            if node.is_running and not any(node is broker.node for broker in self._brokers)
        ]
        return self._source.choice(running) if running else None

    def _pause(self, node: Node) -> None:
        process = node.process
        if process is None or not process.alive:
            return
        node.pause()

        def go_on() -> None:
            if node.process is process:
                node.resume()

        self._later(go_on)

    def _disturb_link(self, fault: Fault, broker: Node, client: Node) -> None:
        network, ends = self._world.network, [broker.name, client.name]
        self._source.shuffle(ends)
        source, target = ends
        link = network.link(source, target)
        if fault is Fault.SLOW_LINK:
            link.slowness = self._source.choice([10.0, 100.0])
            self._trace(f"makes {link.name} {link.slowness:g} times slower")
            self._later(lambda: setattr(link, "slowness", 1.0))
            return
        both_ways = fault is Fault.CUT
        self._trace(f"cuts {link.name}{' both ways' if both_ways else ''}")
        network.cut(source, target, both_ways=both_ways)

        def heal() -> None:
            self._trace(f"heals {link.name}")
            link.heal()
            if both_ways:
                network.link(target, source).heal()

        self._later(heal)

    def _disturb_disk(self, fault: Fault, broker: Node) -> None:
        disk = broker.disk
        match fault:
            case Fault.SLOW_DISK:
                harm, disk.faults = "slow", replace(self._calm, delay_s=0.1, stall=0.2, stall_s=0.1)
            case Fault.FAIL_DISK:
                harm, disk.faults = "fail", replace(self._calm, write_error=0.05, sync_error=0.05)
            case _:
                room = disk.used_bytes + self._source.choice([0, 200, 5_000])
                harm, disk.faults = "full", replace(self._calm, capacity_bytes=room)
        self._trace(f"makes the broker's disk {harm}")

        def heal() -> None:
            self._trace("makes the broker's disk good again")
            disk.faults = replace(self._calm)

        self._later(heal)

    def _later(self, action: object) -> None:
        """Call `action` after a while, or when everything is healed."""
        seconds = self._source.uniform(*_FAULT_DURATION_S)

        async def wait() -> None:
            try:
                await asyncio.sleep(seconds)
            finally:
                assert callable(action)
                action()

        self._endings.append(asyncio.ensure_future(wait()))

    def _trace(self, event: str) -> None:
        self._world.trace.add("nemesis", event)
