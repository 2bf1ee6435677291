"""The times of all faults, drawn from a seed without looking at the cluster: printable in advance, and repeatable."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

BROKERS = 3
_LULL_S = (0.5, 5.0)
_CONCURRENT = (1, 1, 2, 2, 3)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: how many brokers or members of the registry it takes, and for how long."""

    name: str
    seconds: tuple[float, float]
    brokers: int = 0
    """Brokers whose processes it disturbs."""
    members: int = 0
    """Members of the ensemble."""
    ends: int = 0
    """Brokers whose links it cuts."""
    needs_cuts: bool = False
    needs_disk: bool = False
    needs_quorum: bool = False
    """Only with an ensemble."""


KINDS = (
    Kind("kill one broker", (0.0, 6.0), brokers=1),
    Kind("kill two brokers", (0.0, 6.0), brokers=2),
    Kind("kill all brokers", (0.0, 4.0), brokers=3),
    Kind("pause a broker", (0.5, 9.0), brokers=1),
    Kind("pause two brokers", (0.5, 6.0), brokers=2),
    Kind("restart a broker cleanly", (0.0, 2.0), brokers=1),
    Kind("fill a broker's disk", (2.0, 6.0), brokers=1, needs_disk=True),
    Kind("cut broker from broker", (2.0, 10.0), ends=2, needs_cuts=True),
    Kind("cut broker from broker, one way", (2.0, 10.0), ends=2, needs_cuts=True),
    Kind("cut a broker from the other brokers", (2.0, 10.0), ends=1, needs_cuts=True),
    Kind("cut a broker from the registry", (2.0, 10.0), ends=1, needs_cuts=True),
    Kind("cut a broker from the registry, one way", (2.0, 10.0), ends=1, needs_cuts=True),
    Kind("cut a broker from clients", (2.0, 8.0), ends=1, needs_cuts=True),
    Kind("cut a broker from clients, one way", (2.0, 8.0), ends=1, needs_cuts=True),
    Kind("cut a broker off", (2.0, 10.0), ends=1, needs_cuts=True),
    Kind("kill a registry member", (1.0, 6.0), members=1, needs_quorum=True),
    Kind("pause a registry member", (1.0, 6.0), members=1),
    Kind("kill the registry's quorum", (1.0, 9.0), members=2, needs_quorum=True),
    Kind("kill the whole registry", (0.0, 8.0), members=3),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a round; times are seconds after the round's load began."""

    kind: Kind
    begin: float
    end: float
    brokers: tuple[int, ...] = ()
    members: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    is_inward: bool = False
    """Of a one-way cut: what is sent to `ends[0]` is lost, not what it sends."""

    def __str__(self) -> str:
        """Return one line of the schedule."""
        parts = [f"{self.begin:5.1f} to {self.end:5.1f} s  {self.kind.name}"]
        if self.brokers or self.ends:
            parts.append(" ".join(f"broker-{number}" for number in self.brokers or self.ends))
        if self.members:
            parts.append(" ".join(f"registry-{number}" for number in self.members))
        if "one way" in self.kind.name:
            parts.append("what it is sent is lost" if self.is_inward else "what it sends is lost")
        return ", ".join(parts)


class Schedule:
    """Deals kinds like cards: each comes once before any comes again."""

    def __init__(
        self, seed: int, members: int, *, can_cut: bool = True, disks: Sequence[int] = ()
    ) -> None:
        """`disks` are the brokers with a small disk."""
        self._rng = random.Random(seed)
        self._members = members
        self._disks = disks
        self._kinds = [
            kind
            for kind in KINDS
            if (can_cut or not kind.needs_cuts)
            and (disks or not kind.needs_disk)
            and (members > 1 or not kind.needs_quorum)
        ]
        self._deck: list[Kind] = []

    def round(self, seconds: float) -> list[Fault]:
        """Return the faults of the next round, in the order of their beginnings; all end within `seconds`."""
        found: list[Fault] = []
        at = self._rng.uniform(1, 3)
        while at < seconds - 3:
            together: list[Fault] = []
            for _ in range(self._rng.choice(_CONCURRENT)):
                fault = self._draw(at, seconds, together)
                if fault is not None:
                    together.append(fault)
            found += together
            last = max((fault.end for fault in together), default=at)
            at = last + self._rng.uniform(*_LULL_S)
        return sorted(found, key=lambda fault: fault.begin)

    def _draw(self, at: float, limit: float, others: Sequence[Fault]) -> Fault | None:
        """Draw a fault that disturbs no process which another disturbs at that time."""
        if not self._deck:
            self._deck = self._rng.sample(self._kinds, len(self._kinds))
        taken_brokers = {number for other in others for number in other.brokers}
        taken_members = any(other.members for other in others)
        for place, kind in enumerate(self._deck):
            able = self._disks if kind.needs_disk else range(BROKERS)
            free = [number for number in able if number not in taken_brokers]
            if len(free) >= kind.brokers and not (kind.members and taken_members):
                del self._deck[place]
                return self._fault(kind, at, limit, free)
        return None

    def _fault(self, kind: Kind, at: float, limit: float, free: Sequence[int]) -> Fault:
        rng = self._rng
        begin = at + rng.uniform(0, 2)
        return Fault(
            kind,
            begin,
            max(begin, min(begin + rng.uniform(*kind.seconds), limit)),
            tuple(rng.sample(free, kind.brokers)),
            tuple(rng.sample(range(self._members), min(kind.members, self._members))),
            tuple(rng.sample(range(BROKERS), kind.ends)),
            rng.random() < 0.5,
        )
