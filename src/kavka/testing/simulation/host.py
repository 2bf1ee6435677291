"""The doors of one process on a simulated node."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from weakref import ref

from kavka.testing.simulation.chance import SimChance, stream
from kavka.testing.simulation.clock import SimClock
from kavka.testing.simulation.disk import DiskDoor
from kavka.testing.simulation.network import NetworkDoor
from kavka.testing.simulation.process import Process

if TYPE_CHECKING:
    from kavka.client.client import Client
    from kavka.testing.simulation.world import Node


C = TypeVar("C", bound="Client")


class SimHost:
    """A `doors.Host`: what `RealHost` is to production."""

    memory_bytes = 8 << 30

    def __init__(self, node: Node, process: Process) -> None:
        """Open the doors of `node` for `process`."""
        self.node = node
        self.process = process
        self.clock: SimClock = node.clock
        self.chance = SimChance(stream(node.world.seed, f"chance of {process.name} {node.starts}"))
        self.disk: DiskDoor = node.disk.door(process)
        self.network: NetworkDoor = node.world.network.door(process, node)

    def with_client(self, client: C) -> C:
        """Return a client that is abandoned when the process ends, as a killed program's is."""
        found = ref(client)

        def end() -> None:
            if (ended := found()) is not None:
                ended.abandon()

        self.process.at_end.append(end)
        return client
