"""Plans that move partitions to other brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kavka.client.metadata import BrokerAddress
from kavka.core.controller.placement import machine_of, place_replicas
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
