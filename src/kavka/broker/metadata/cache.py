"""The metadata cache: live brokers, topics, and the leaders of partitions.

Written by UpdateMetadata only; read by every handler. Values are immutable, so they may be kept across an await.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Set
from typing import Final, NamedTuple

from kavka.broker.configs.broker_config import Endpoint
from kavka.ids import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
NO_LEADER = BrokerId(-1)
_UNREACHABLE_MS: Final = 1000
_EXPECTED_MS: Final = 30_000


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


class PartitionMetadata(NamedTuple):
    """Leadership of one partition as the controller last said it."""

    leader: BrokerId
    leader_epoch: int
    replicas: tuple[BrokerId, ...]
    in_sync_replicas: tuple[BrokerId, ...]
    partition_epoch: int
    offline_replicas: tuple[BrokerId, ...] = ()
    """On brokers that are down, or on directories that have failed."""


class TopicMetadata(NamedTuple):
    """A topic: its id and its partitions, by index."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionMetadata, ...]

    @property
    def is_internal(self) -> bool:
        """Return whether only brokers write to it."""
        return self.name in INTERNAL_TOPICS


class MetadataCache:
    """The present metadata; one per broker."""

    def __init__(self, cluster_id: str = "") -> None:
        """Start without brokers and topics."""
        self.cluster_id = cluster_id
        self.controller_id = NO_LEADER
        self.brokers: dict[BrokerId, LiveBroker] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self._names: dict[TopicId, str] = {}
        self._unreachable_since_ms: dict[BrokerId, int] = {}
        self._changes: list[asyncio.Future[None]] = []
        self._expected: set[str] = set()
        self._expected_until_ms = 0

    # -- topics to be published

    def expect_topics(self, topics: Iterable[str], now_ms: int) -> None:
        """Note the topics of the registry at the start of this broker: a controller will send them."""
        self._expected = set(topics)
        self._expected_until_ms = now_ms + _EXPECTED_MS

    def is_expected(self, topic: str, now_ms: int) -> bool:
        """Return whether a topic exists in the registry that no controller has sent yet."""
        return topic in self.expected_topics(now_ms)

    def expected_topics(self, now_ms: int) -> Set[str]:
        """Return the topics that no controller has sent yet. One deleted meanwhile is not expected for long."""
        if self._expected and now_ms > self._expected_until_ms:
            self._expected.clear()
        return self._expected

    # -- unreachable brokers

    def mark_unreachable(self, broker: BrokerId, now_ms: int) -> None:
        """Note that a connection to a broker broke: another may soon lead its partitions.

        A client that lost it, too, asks for the leader at the same time, and would not ask again for a second or more.
        """
        if broker in self.brokers:
            self._unreachable_since_ms[broker] = now_ms

    def mark_reachable(self, broker: BrokerId) -> None:
        """Note that a broker is reached again."""
        if self._unreachable_since_ms.pop(broker, None) is not None:
            self.changed()

    def is_unreachable(self, broker: BrokerId, now_ms: int) -> bool:
        """Return whether a broker was lost a moment ago, and nothing was learned of it since."""
        if not self._unreachable_since_ms:
            return False
        since_ms = self._unreachable_since_ms.get(broker)
        if since_ms is None:
            return False
        if now_ms - since_ms <= _UNREACHABLE_MS and broker in self.brokers:
            return True
        del self._unreachable_since_ms[broker]
        return False

    @property
    def has_unreachable(self) -> bool:
        """Return whether any broker is marked unreachable; the mark may have expired."""
        return bool(self._unreachable_since_ms)

    def changed(self) -> None:
        """Wake waiters for updates."""
        waiting, self._changes = self._changes, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def next_change(self) -> asyncio.Future[None]:
        """Return a future of the next update."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes.append(future)
        return future

    # -- topics

    def put_topic(self, topic: TopicMetadata) -> None:
        """Add or replace a topic."""
        self.topics[topic.name] = topic
        self._expected.discard(topic.name)
        if topic.topic_id != NO_TOPIC_ID:
            self._names[topic.topic_id] = topic.name

    def remove_topic(self, name: str) -> None:
        """Forget a topic."""
        self._expected.discard(name)
        topic = self.topics.pop(name, None)
        if topic is not None:
            self._names.pop(topic.topic_id, None)

    def clear_leader(self, topic_partition: TopicPartition) -> None:
        """Show a partition without leader: the disk of its only replica has failed."""
        topic = self.topics.get(topic_partition.topic)
        if topic is not None and topic_partition.partition < len(topic.partitions):
            partitions = list(topic.partitions)
            partitions[topic_partition.partition] = partitions[topic_partition.partition]._replace(
                leader=NO_LEADER
            )
            self.topics[topic_partition.topic] = topic._replace(partitions=tuple(partitions))

    def name_of(self, topic_id: TopicId) -> str | None:
        """Return the name behind a topic id, or None."""
        return self._names.get(topic_id)

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        """Return what is known of a partition, or None."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]

    def brokers_on_listener(self, listener_name: str) -> list[tuple[LiveBroker, Endpoint]]:
        """Return the live brokers that have a listener of that name, and where it is."""
        found = ((live, live.endpoint(listener_name)) for live in self.brokers.values())
        return [(live, endpoint) for live, endpoint in found if endpoint is not None]

    def offline_replicas_of(self, partition: PartitionMetadata) -> list[BrokerId]:
        """Return the replicas of a partition that cannot be reached: their broker is dead, or their directory."""
        return [
            replica
            for replica in partition.replicas
            if replica not in self.brokers or replica in partition.offline_replicas
        ]
