"""Where the replicas of new partitions go.

First replicas go round the brokers from a random start; the others follow at a shift that grows with each round, so
that followers are spread too. Ten partitions, three replicas, five brokers, start 0, shift 0:

    p0: 0 1 2    p1: 1 2 3    p2: 2 3 4    p3: 3 4 0    p4: 4 0 1
    p5: 0 2 3    p6: 1 3 4    ...

Source: Kafka's `AdminUtils.assignReplicasToBrokers`.
"""

from __future__ import annotations

from collections.abc import Sequence


def place_replicas(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> list[list[int]]:
    """Return the replicas of each new partition, preferred leader first.

    `brokers` is sorted; `start` and `shift` are chance's (0 up to the number of brokers); when partitions are added,
    `first_partition` is the index of the first new one.
    """
    count = len(brokers)
    assert 0 < replication_factor <= count
    placed = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        leader = (partition + start) % count
        replicas = [leader]
        for follower in range(replication_factor - 1):
            replicas.append((leader + 1 + (shift + follower) % (count - 1)) % count)
        placed.append([brokers[index] for index in replicas])
    return placed
