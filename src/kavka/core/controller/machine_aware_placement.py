"""Exchange replicas so that a machine has two of a partition only when no machine is left without.

Kafka's placement knows racks, not machines. What it gives stands, partition by partition, unless replicas of one
partition share a machine while another machine has none. Then followers move, the first replica never. Four brokers,
0 and 1 on machine a, 2 and 3 on machine b, two replicas:

    Kafka's    p0: 0 1    p1: 1 2    p2: 2 3    p3: 3 0
    spread     p0: 0 3    p1: 1 2    p2: 2 1    p3: 3 0

Racks come first: no exchange leaves a partition in fewer racks. So a follower may have to go to a machine that has a
replica, which then continues to another: an alternating path, as in Kuhn's method for matchings. It is needed only
where machines and racks cross, one machine in two racks of which one has another machine too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class ReplicaSlot(NamedTuple):
    """A broker's slot: the index of its machine, its index among the brokers there, and their number."""

    machine: int
    replica_index: int
    size: int


Exchange = tuple[int, int]
"""The broker that a replica leaves, and the one that it goes to."""


def spread_over_machines(
    placed: Iterable[Sequence[int]],
    brokers: Sequence[int],
    machines: Mapping[int, str],
    racks: Mapping[int, str] | None,
) -> list[list[int]]:
    """Return the replicas of each partition, preferred leader first, after the exchanges that machines ask for.

    `brokers` is sorted; a broker that `machines` does not name has a machine of its own. `racks` names the rack of
    every broker, or is None. Of the brokers to choose from, the one with fewest replicas of `placed` is taken.
    """
    spread = [list(replicas) for replicas in placed]
    load = Counter(broker for replicas in spread for broker in replicas)
    machine_spread = _MachineSpread(slots_of(brokers, machines), racks, load)
    for replicas in spread:
        while exchanges := machine_spread.next_machine(replicas):
            for old, new in exchanges:
                replicas[replicas.index(old)] = new
                load[old] -= 1
                load[new] += 1
    return spread


def slots_of(brokers: Sequence[int], machines: Mapping[int, str]) -> dict[int, ReplicaSlot]:
    """Return the slot of each broker, in the order of `brokers`; machines are counted as they first appear there."""
    members: dict[str | int, list[int]] = {}
    for broker in brokers:
        members.setdefault(machines.get(broker, broker), []).append(broker)
    slots = {
        broker: ReplicaSlot(machine, place, len(sharing))
        for machine, sharing in enumerate(members.values())
        for place, broker in enumerate(sharing)
    }
    return {broker: slots[broker] for broker in brokers}


class _MachineSpread:
    """Looks for exchanges; `load` is how many replicas each broker has, and its owner's to change."""

    def __init__(
        self,
        slots: Mapping[int, ReplicaSlot],
        racks: Mapping[int, str] | None,
        load: Mapping[int, int],
    ) -> None:
        self._slots = slots
        self._racks = racks
        self._load = load
        self._machine_count = len({slot.machine for slot in slots.values()})

    def next_machine(self, replicas: Sequence[int]) -> list[Exchange]:
        """Return exchanges, in order, after which one more machine has a replica; none when none can have one."""
        used = Counter(self._slots[broker].machine for broker in replicas)
        if len(used) in (len(replicas), self._machine_count):
            return []
        crowded = [b for b in replicas[:0:-1] if used[self._slots[b].machine] > 1]
        # Of those with most replicas the last: what Kafka chose first is changed last.
        for old in sorted(crowded, key=lambda broker: -self._load[broker]):
            seen = {self._slots[replicas[0]].machine, self._slots[old].machine}
            if path := self._path(replicas, old, seen):
                return path
        return []

    def _path(self, replicas: Sequence[int], old: int, seen: set[int]) -> list[Exchange]:
        """Return a path from `old` to a machine without a replica, over machines with replicas that move on in turn.

        `seen` are the excluded machines: the leader's, and those that the path has tried.
        """
        slots = self._slots
        on = {slots[broker].machine: broker for broker in replicas}
        allowed = [
            broker
            for broker, slot in slots.items()
            if slot.machine not in seen and self._keeps_racks(replicas, old, broker)
        ]
        free = [broker for broker in allowed if slots[broker].machine not in on]
        if free:
            return [(old, min(free, key=lambda new: self._cost(old, new)))]
        for new in allowed:
            machine = slots[new].machine
            if machine in seen or new in replicas:
                continue
            seen.add(machine)
            after = [new if broker == old else broker for broker in replicas]
            if rest := self._path(after, on[machine], seen):
                return [(old, new), *rest]
        return []

    def _keeps_racks(self, replicas: Sequence[int], old: int, new: int) -> bool:
        """Return whether the partition is in as many racks after the exchange as before."""
        racks = self._racks
        if racks is None or racks[old] == racks[new]:
            return True
        others = {racks[broker] for broker in replicas if broker != old}
        return racks[old] in others or racks[new] not in others

    def _cost(self, old: int, new: int) -> tuple[bool, int, int, int]:
        """Return what speaks against an exchange: another rack, many replicas there, another place, a far machine.

        Place and distance map the brokers of like machines one to one, so that topics of a single partition,
        with unknown loads, are even on average too.
        """
        here, there = self._slots[old], self._slots[new]
        return (
            self._racks is not None and self._racks[old] != self._racks[new],
            self._load[new],
            (there.replica_index - here.replica_index) % there.size,
            (there.machine - here.machine) % self._machine_count,
        )
