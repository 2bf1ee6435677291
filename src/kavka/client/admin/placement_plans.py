"""Plans that move partitions to other brokers, and the state of moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kavka.client.admin.admin import Admin
from kavka.client.metadata import BrokerAddress
from kavka.core.controller.placement import machine_of, place_replicas
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.io import Random

Assignment = Mapping[TopicPartition, Sequence[int]]
"""The brokers of partitions, preferred leader first."""


class TooFewBrokers(ValueError):
    """A topic has more replicas than there are brokers to hold them."""


class RacksMissing(ValueError):
    """Some brokers name a rack and others do not."""


def proposed_assignment(
    current: Assignment, brokers: Sequence[BrokerAddress], rack_aware: bool, random: Random
) -> dict[TopicPartition, list[int]]:
    """Return a placement of all partitions on the brokers, topic by topic, as a new topic's would be.

    Kafka's tool asks for racks only; here machines, by the hosts of the brokers, count too, even if racks shall not.
    Raise TooFewBrokers, RacksMissing.
    """
    racks = _racks(brokers) if rack_aware else None
    machines = {int(broker.broker_id): machine_of(broker.host) for broker in brokers}
    ids = sorted(broker.broker_id for broker in brokers)
    proposed: dict[TopicPartition, list[int]] = {}
    for topic in dict.fromkeys(topic_partition.topic for topic_partition in current):
        parts = [topic_partition for topic_partition in current if topic_partition.topic == topic]
        factor = len(current[parts[0]])
        if factor > len(ids):
            raise TooFewBrokers(
                f"The target replication factor of {factor} cannot be reached because only {len(ids)} broker(s) "
                "are registered."
            )
        start, shift = (int(random.random() * len(ids)) for _ in range(2))
        placed = place_replicas(
            ids, len(parts), factor, start=start, shift=shift, racks=racks, machines=machines
        )
        proposed.update(zip(parts, placed, strict=True))
    return proposed


def _racks(brokers: Sequence[BrokerAddress]) -> dict[int, str] | None:
    """Return the rack of each broker, None where no broker has one. Raise RacksMissing when only some have."""
    racks: dict[int, str] = {b.broker_id: b.rack for b in brokers if b.rack is not None}
    if racks and len(racks) < len(brokers):
        raise RacksMissing("Not all brokers have rack information.")
    return racks or None


class MoveState(NamedTuple):
    """The current and the target replicas of a partition."""

    current: tuple[int, ...]
    target: tuple[int, ...]
    is_done: bool
    """No move of it is in progress, whether or not it is where it shall be."""

    def description(self, topic_partition: TopicPartition) -> str:
        """Return the sentence about it."""
        if not self.is_done:
            return f"Reassignment of partition {topic_partition} is still in progress."
        if self.current == self.target:
            return f"Reassignment of partition {topic_partition} is completed."
        return (
            f"There is no active reassignment of partition {topic_partition}, but replica set is "
            f"{_listed(self.current)} rather than {_listed(self.target)}."
        )


async def partition_states(
    admin: Admin, entries: Sequence[tuple[TopicPartition, Sequence[int]]]
) -> tuple[dict[TopicPartition, MoveState], bool]:
    """Return the state of each partition, and whether any partition of the cluster moves."""
    moves = await admin.list_partition_reassignments()
    resting = dict.fromkeys(
        topic_partition.topic for topic_partition, _ in entries if topic_partition not in moves
    )
    topics = await admin.describe_topics(resting) if resting else {}
    states = {}
    for topic_partition, target in entries:
        if topic_partition in moves:
            states[topic_partition] = MoveState(
                moves[topic_partition].replicas, tuple(target), False
            )
            continue
        topic = topics[topic_partition.topic]
        current: tuple[int, ...] = ()
        if not isinstance(topic, KafkaError):
            known = {part.partition: part.replicas for part in topic.partitions}
            current = known.get(topic_partition.partition, ())
        elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise topic
        states[topic_partition] = MoveState(current, tuple(target), True)
    return states, bool(moves)


def _listed(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
