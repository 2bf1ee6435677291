"""A client node that starts again when it is killed, until its work is done."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from kavka.simulation.checker import Checker
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.random_streams import stream
from kavka.simulation.scenario import Scenario
from kavka.simulation.world import World


class ClientNode(ABC):
    """A program with work to do. `runs` counts its incarnations."""

    def __init__(self, world: World, name: str, scenario: Scenario, checker: Checker) -> None:
        """Make the node."""
        self.world = world
        self.name = name
        self.scenario = scenario
        self.checker = checker
        self.node = world.node(name)
        self.source = stream(world.seed, name)
        self.is_done = False
        self.quits = asyncio.Event()
        """Set when the work is no longer needed: end soon, and cleanly."""

    @property
    def client_id(self) -> str:
        """The name of this incarnation."""
        return f"{self.name}.{self.node.starts}"

    async def keep_running(self) -> None:
        """Start the program, and again after each death, until it says that it is done."""
        while not self.is_done:
            process = self.node.start(self._program)
            await process.ended
            await asyncio.sleep(self.source.uniform(0.1, 2.0))

    async def _program(self, environment: SimEnvironment) -> None:
        await self.work(environment)
        self.is_done = True

    @abstractmethod
    async def work(self, environment: SimEnvironment) -> None:
        """Run the work of this incarnation, or what is left of it."""
