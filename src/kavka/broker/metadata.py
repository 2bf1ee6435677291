"""What this broker knows of the cluster: who is alive, which topics exist, who leads what.

Written by the controller's news only; read by every handler. Values are immutable, so they may be kept across an await.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kavka.broker.config import Endpoint
from kavka.ids import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
NO_LEADER = BrokerId(-1)


class LiveBroker(NamedTuple):
    """A broker that is registered."""

    broker_id: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    epoch: int

    def endpoint(self, listener_name: str) -> Endpoint | None:
        """Return where the broker is reached through the listener of that name."""
        for endpoint in self.endpoints:
            if endpoint.name == listener_name:
                return endpoint
        return None


class PartitionNews(NamedTuple):
    """Leadership of one partition as the controller last said it."""

    leader: BrokerId
    leader_epoch: int
    replicas: tuple[BrokerId, ...]
    in_sync_replicas: tuple[BrokerId, ...]
    partition_epoch: int


class TopicNews(NamedTuple):
    """A topic: its id and its partitions, by index."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionNews, ...]

    @property
    def is_internal(self) -> bool:
        """Whether only the broker writes to it."""
        return self.name in INTERNAL_TOPICS


class MetadataCache:
    """The present picture; one per broker."""

    def __init__(self, cluster_id: str) -> None:
        """Begin with nobody alive and no topics."""
        self.cluster_id = cluster_id
        self.controller_id = NO_LEADER
        self.brokers: dict[BrokerId, LiveBroker] = {}
        self.topics: dict[str, TopicNews] = {}
        self._names: dict[TopicId, str] = {}

    def put_topic(self, topic: TopicNews) -> None:
        """Learn of a topic, or of a change to it."""
        self.topics[topic.name] = topic
        if topic.topic_id != NO_TOPIC_ID:
            self._names[topic.topic_id] = topic.name

    def remove_topic(self, name: str) -> None:
        """Forget a topic."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self._names.pop(topic.topic_id, None)

    def lose_leader(self, where: TopicPartition) -> None:
        """Show a partition without leader: the disk of its only replica has failed."""
        topic = self.topics.get(where.topic)
        if topic is not None and where.partition < len(topic.partitions):
            partitions = list(topic.partitions)
            partitions[where.partition] = partitions[where.partition]._replace(leader=NO_LEADER)
            self.topics[where.topic] = topic._replace(partitions=tuple(partitions))

    def name_of(self, topic_id: TopicId) -> str | None:
        """Return the name behind a topic id, or None."""
        return self._names.get(topic_id)

    def partition(self, where: TopicPartition) -> PartitionNews | None:
        """Return what is known of a partition, or None."""
        topic = self.topics.get(where.topic)
        if topic is None or not 0 <= where.partition < len(topic.partitions):
            return None
        return topic.partitions[where.partition]

    def reached_by(self, listener_name: str) -> list[tuple[LiveBroker, Endpoint]]:
        """Return the live brokers that have a listener of that name, and where it is."""
        found = ((live, live.endpoint(listener_name)) for live in self.brokers.values())
        return [(live, endpoint) for live, endpoint in found if endpoint is not None]

    def offline_of(self, replicas: Iterable[BrokerId]) -> list[BrokerId]:
        """Return those of `replicas` that are not alive."""
        return [broker for broker in replicas if broker not in self.brokers]
