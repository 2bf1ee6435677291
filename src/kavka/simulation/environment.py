"""The I/O of one process on a simulated node."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from weakref import ref

from kavka.simulation.clock import SimClock
from kavka.simulation.disk import ProcessDisk
from kavka.simulation.host import Host
from kavka.simulation.network import ProcessNetwork
from kavka.simulation.process import Process
from kavka.simulation.random_streams import SimRandom

if TYPE_CHECKING:
    from kavka.client.client import Client


C = TypeVar("C", bound="Client")


class SimEnvironment:
    """An `io.Environment`: the simulated counterpart of `OsEnvironment`."""

    memory_bytes = 8 << 30

    def __init__(
        self, host: Host, process: Process, random: SimRandom, network: ProcessNetwork
    ) -> None:
        """Create the I/O of `process` on `host`."""
        self.process = process
        self.clock: SimClock = host.clock
        self.random = random
        self.disk: ProcessDisk = host.disk.for_process(process)
        self.network = network

    def with_client(self, client: C) -> C:
        """Return a client that is abandoned when the process ends, as a killed program's is."""
        found = ref(client)

        def end() -> None:
            if (ended := found()) is not None:
                ended.abandon()

        self.process.at_end.append(end)
        return client
