"""Placement of the replicas of new partitions.

First replicas go round the brokers from a random start; the others follow at a shift that grows with each round, so
that followers are spread too. Ten partitions, three replicas, five brokers, start 0, shift 0:

    p0: 0 1 2    p1: 1 2 3    p2: 2 3 4    p3: 3 4 0    p4: 4 0 1
    p5: 0 2 3    p6: 1 3 4    ...

With racks the brokers stand in an order that alternates between them, and a rack takes a second replica of a partition
only when every rack has one. Then followers that share a machine with another replica are exchanged
(`machine_aware_placement`).

Source: Kafka's `AdminUtils.assignReplicasToBrokers`, KIP-36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kavka.core.controller.machine_aware_placement import spread_over_machines


def place_replicas(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int = 0,
    racks: Mapping[int, str] | None = None,
    machines: Mapping[int, str] | None = None,
) -> list[list[int]]:
    """Return the replicas of each new partition, preferred leader first.

    `brokers` is sorted; `start` and `shift` are chance's (0 up to the number of brokers); when partitions are added,
    `first_partition` is the index of the first new one. `racks` names the rack of every broker, or is left out;
    `machines` names the machine (see `machine_of`) of those brokers of which it is known.
    """
    count = len(brokers)
    assert 0 < replication_factor <= count
    order = alternate_racks(brokers, racks) if racks else list(brokers)
    rack_count = len({racks[broker] for broker in brokers}) if racks else 1
    placed = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        leader = (partition + start) % count
        rest = [
            order[(leader + 1 + (shift * rack_count + k) % (count - 1)) % count]
            for k in range(count - 1)
        ]
        placed.append(_choose(order[leader], rest, replication_factor, racks))
    return spread_over_machines(placed, brokers, machines, racks) if machines else placed


def machine_of(host: str) -> str:
    """Return the machine of a host: its name in lower case; all loopback addresses are one machine.

    Several names of one machine count as several machines; use one name in the endpoints of its brokers.
    """
    name = host.lower()
    return "localhost" if name == "::1" or name.startswith("127.") else name


def alternate_racks(brokers: Sequence[int], racks: Mapping[int, str]) -> list[int]:
    """Return the brokers in an order that takes one of each rack in turn, as long as the rack has more."""
    by_rack = {
        rack: [b for b in brokers if racks[b] == rack]
        for rack in sorted({racks[b] for b in brokers})
    }
    longest = max(len(members) for members in by_rack.values())
    return [
        members[index]
        for index in range(longest)
        for members in by_rack.values()
        if index < len(members)
    ]


def _choose(
    leader: int, rest: Sequence[int], replication_factor: int, racks: Mapping[int, str] | None
) -> list[int]:
    """Return the leader and the first of the rest, those of racks without a replica before the others."""
    if not racks:
        return [leader, *rest[: replication_factor - 1]]
    chosen, used = [leader], {racks[leader]}
    rack_count = len({racks[broker] for broker in (leader, *rest)})
    waiting = list(rest)
    while len(chosen) < replication_factor:
        at = next(
            i
            for i, broker in enumerate(waiting)
            if len(used) == rack_count or racks[broker] not in used
        )
        broker = waiting[at]
        # Kafka walks on round the ring from here, so the skipped ones go to the end.
        waiting = waiting[at + 1 :] + waiting[:at]
        chosen.append(broker)
        used.add(racks[broker])
    return chosen
