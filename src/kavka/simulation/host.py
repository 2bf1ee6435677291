"""A simulated machine as disk and network see it: its address, its disk, its clock, and whether it is switched on."""

from __future__ import annotations

from collections.abc import Callable

from kavka.simulation.clock import SimClock
from kavka.simulation.disk import SimDisk
from kavka.simulation.loop import SimLoop
from kavka.simulation.random_streams import stream


class Host:
    """A machine. Its disk and clock stay when its process dies."""

    def __init__(self, seed: int, loop: SimLoop, name: str, address: str) -> None:
        """Make a machine that is up and runs nothing."""
        source = stream(seed, f"node {name}")
        self.name = name
        self.address = address
        self.is_up = True
        self.when_up: list[Callable[[], None]] = []
        """Called when the machine is switched on again."""
        self.disk = SimDisk(loop, stream(seed, f"disk of {name}"))
        self.clock = SimClock(
            loop,
            drift=source.uniform(-1e-4, 1e-4),
            origin_ms=source.randrange(1_000, 1 << 40),
        )
        self.disk.stall = self.clock.stall

    def switch_on(self) -> None:
        """Switch the host on, and run what waited for that."""
        if not self.is_up:
            self.is_up = True
            waiting, self.when_up = self.when_up, []
            for action in waiting:
                action()
