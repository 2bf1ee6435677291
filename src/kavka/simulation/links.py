"""The links between hosts: slow, narrow, cut or healed, by the weather of a world."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any

from kavka.simulation.random_streams import stream
from kavka.simulation.scheduling import SchedulingLoop
from kavka.simulation.trace import Trace

KERNEL = contextvars.Context()
"""The context of the network's own callbacks: they belong to no process, so that they continue when one crashes."""


@dataclass(slots=True)
class Weather:
    """Properties of the links of a world; times in seconds, probabilities per chunk, connection or attempt."""

    latency_s: float = 0.0005
    jitter_s: float = 0.0002
    bytes_per_s: float = 100e6
    hiccup: float = 0.0
    """Probability that a chunk is sent again by TCP, and arrives `hiccup_s` later."""
    hiccup_s: float = 0.2
    cutting: float = 0.2
    """Probability that a chunk is split in two."""
    refuse: float = 0.0
    """Probability that a connection is refused although there is a listener."""
    window_bytes: int = 65_536
    connect_timeout_s: float = 20.0


class Link:
    """One direction between two nodes."""

    def __init__(self, links: Links, name: str) -> None:
        """Make a link that is whole."""
        self.name = name
        self.is_cut = False
        self.slowness = 1.0
        self._links = links
        self._source = stream(links.seed, f"link {name}")
        self._free_at_s = 0.0
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def send(
        self, size: int, not_before_s: float, arrive: Callable[..., None], *args: Any
    ) -> float:
        """Call `arrive(*args)` when `size` bytes are across, at `not_before_s` or later. Return that time."""
        at = self.crossing(size, not_before_s)
        self.remove_held(at, arrive, *args)
        return at

    def crossing(self, size: int, not_before_s: float = 0.0) -> float:
        """Send `size` bytes without a receiver. Return when they have arrived, unless the link is cut then."""
        weather = self._links.weather
        free_at_s = max(self._links.loop.time(), self._free_at_s)
        departed = self._free_at_s = free_at_s + size * self.slowness / weather.bytes_per_s
        delay = weather.latency_s - log(1.0 - self._source.random()) * weather.jitter_s
        if weather.hiccup and self._source.random() < weather.hiccup:
            delay += weather.hiccup_s
        return max(departed + delay * self.slowness, not_before_s)

    def cut(self) -> None:
        """Hold back everything that is or will be on the way."""
        self.is_cut = True

    def heal(self) -> None:
        """Deliver what was held back, in its order."""
        self.is_cut = False
        held, self._held = self._held, []
        for arrive, args in held:
            arrive(*args)

    def remove_held(self, at_s: float, arrive: Callable[..., None], *args: Any) -> None:
        """Call `arrive(*args)` at that time, or when the link is whole again."""
        self._links.loop.call_at(at_s, self._arrive, arrive, args, context=KERNEL)

    def _arrive(self, arrive: Callable[..., None], args: tuple[Any, ...]) -> None:
        if self.is_cut:
            self._held.append((arrive, args))
        else:
            arrive(*args)


class Links:
    """All links of a world, and the weather on them."""

    def __init__(self, seed: int, loop: SchedulingLoop, trace: Trace) -> None:
        """Make links in good weather as they are asked for."""
        self.seed = seed
        self.loop = loop
        self.trace = trace
        self.weather = Weather()
        self.cuts = stream(seed, "cuts")
        self._links: dict[tuple[str, str], Link] = {}

    def link(self, source: str, target: str) -> Link:
        """Return the link from one node to another."""
        key = (source, target)
        if key not in self._links:
            self._links[key] = Link(self, f"{source}->{target}")
        return self._links[key]

    def cut(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Cut the link; by default in both directions."""
        self.link(source, target).cut()
        if both_ways:
            self.link(target, source).cut()

    def heal(self) -> None:
        """Make every link whole and as fast as the weather allows."""
        for link in list(self._links.values()):
            link.slowness = 1.0
            link.heal()
