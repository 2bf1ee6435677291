"""The broker of a run: an ordinary `Broker` on a simulated node, started again whenever it has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kavka.broker.broker import Broker
from kavka.broker.lifecycle.identity import IdentityError
from kavka.registry.interface import Registry
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.random_streams import stream
from kavka.simulation.world import Node, World


class BrokerNode:
    """A node that runs a broker."""

    def __init__(
        self,
        world: World,
        name: str,
        settings: dict[str, str],
        registry: Callable[[str, SimEnvironment], Registry | None] | None = None,
    ) -> None:
        """Make the node; `keep_running` starts the broker. `registry` gives each process a session."""
        self.node: Node = world.node(name)
        self.keeps_running = True
        self.is_serving = False
        self.down_s = (0.05, 3.0)
        self.broker: Broker | None = None
        """The broker of the running process, or of the last one."""
        self._world = world
        self._registry = registry
        self._settings = settings
        self._source = stream(world.seed, f"keeper of {name}")
        self._stop = asyncio.Event()

    async def keep_running(self) -> None:
        """Start the broker, and again after each end, until `keeps_running` is false."""
        while True:
            process = self.node.start(self._serve)
            await process.ended
            self.is_serving = False
            if not self.keeps_running:
                return
            await asyncio.sleep(self._source.uniform(*self.down_s))

    @property
    def is_stopping(self) -> bool:
        """Return whether the broker was asked to stop, or stops after a failure."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Ask the broker to stop as SIGTERM does."""
        self._world.trace.add(self.node.name, "is asked to stop")
        self._stop.set()

    def _session(self, environment: SimEnvironment) -> Registry | None:
        """Return a session with a registry that the settings do not name."""
        return None if self._registry is None else self._registry(self.node.name, environment)

    async def _serve(self, environment: SimEnvironment) -> None:
        stop = self._stop = asyncio.Event()
        broker = self.broker = Broker(self._settings, environment, self._session(environment))
        broker.failed.add_done_callback(lambda _: stop.set())
        try:
            endpoints = await broker.start()
        except (OSError, IdentityError) as error:
            self._world.trace.add(self.node.name, f"cannot start: {error}")
            environment.process.may_leave_tasks = True
            return
        self.is_serving = True
        self._world.trace.add(self.node.name, f"serves {', '.join(map(str, endpoints))}")
        await stop.wait()
        if broker.failed.done():
            self._world.trace.add(self.node.name, f"gives up: {broker.failed.result()}")
            environment.process.may_leave_tasks = True
        await broker.stop()
