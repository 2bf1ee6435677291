"""The registry of a chaos cluster: an ensemble of ZooKeeper, or ours served by one process."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from kavka_chaos.network import Network
from kavka_compat.processes import Running, free_port
from kavka_compat.served import Served
from kavka_compat.zookeeper import Ensemble


class Registry(Protocol):
    """Members by number that may be killed and paused."""

    connect: str
    """The value for `zookeeper.connect`."""

    def kill(self, number: int) -> None:
        """Kill a member."""

    def revive(self, number: int) -> None:
        """Start a member that was killed."""

    def signal(self, number: int, which: signal.Signals) -> None:
        """Send a signal to a member that runs."""

    def heal(self) -> None:
        """Let all members run, and return when they listen."""

    def stop(self) -> None:
        """End all members."""


class ZooKeeper:
    """An ensemble of three, each on a machine of its own."""

    def __init__(self, directory: Path, network: Network, machines: Sequence[str]) -> None:
        """Start it, and return when its members listen."""
        self._ensemble = Ensemble(
            directory,
            "3.8",
            len(machines),
            [network.address(machine) for machine in machines],
            [network.within(machine) for machine in machines],
        )
        shown = map(network.shown, machines, self._ensemble.ports)
        self.connect = ",".join(shown)
        self._members = range(len(machines))
        self._dead = set(self._members)
        self.heal()

    def kill(self, number: int) -> None:
        """Kill a member."""
        self._ensemble.kill(number)
        self._dead.add(number)

    def revive(self, number: int) -> None:
        """Start a member that was killed."""
        self._ensemble.start(number)
        self._dead.discard(number)

    def signal(self, number: int, which: signal.Signals) -> None:
        """Send a signal to a member that runs."""
        self._ensemble.process(number).signal(which)

    def heal(self) -> None:
        """Let all members run, and return when they listen."""
        for number in sorted(self._dead):
            self.revive(number)
        for number in self._members:
            self.signal(number, signal.SIGCONT)
            self._ensemble.wait_for(number)

    def stop(self) -> None:
        """End all members."""
        self._ensemble.stop()


class ServedRegistry:
    """kavka's registry server, one process: killing one server kills all."""

    def __init__(self, directory: Path, network: Network, machine: str) -> None:
        """Start it, and return when it is ready."""
        directory.mkdir(parents=True, exist_ok=True)
        self._served = Served(
            directory,
            {"tickTime": "500"},
            free_port(),
            host=network.address(machine),
            within=network.within(machine),
        )
        self._served.start()
        self.connect = network.shown(machine, self._served.port)

    def kill(self, number: int) -> None:
        """Kill it."""
        self._process(number).kill()

    def revive(self, number: int) -> None:
        """Start it again on the same directory."""
        assert not self._process(number).alive()
        self._served.launch()

    def signal(self, number: int, which: signal.Signals) -> None:
        """Send it a signal."""
        self._process(number).signal(which)

    def heal(self) -> None:
        """Let it run, and return when it is ready."""
        if not self._served.process.alive():
            self._served.launch()
        self._served.process.signal(signal.SIGCONT)
        self._served.process.wait_for("ready: ", 60)

    def stop(self) -> None:
        """End it."""
        self._served.process.kill()

    def _process(self, number: int) -> Running:
        assert number == 0
        return self._served.process
