"""Cluster metadata: brokers, topics, leaders and their epochs, and the time of the next refresh. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kavka.core.access.names import AclOperation
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from kavka.values import frozen, replace
from kavka.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

_INCOMPLETE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
_REFUSALS = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Invalid topics",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Not authorized to access topics",
}


@frozen
class BrokerAddress:
    """The address of a broker."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        """Return the address and id as Kafka's tools print a node."""
        return f"{self.host}:{self.port} (id: {self.broker_id} rack: {self.rack or 'null'})"


@frozen
class PartitionMetadata:
    """A partition's leader and replicas. `leader` is -1 while there is none."""

    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    in_sync_replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]
    error: ErrorCode


@frozen
class TopicMetadata:
    """A topic; `partitions` stand in order of their numbers. `error` is NONE for a topic that exists."""

    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]
    error: ErrorCode = ErrorCode.NONE
    authorized_operations: frozenset[AclOperation] | None = None
    """Operations that the client may do with the topic, where an admin client has asked for it (KIP-430)."""

    @property
    def is_refused(self) -> bool:
        """Return whether waiting cannot help: the name is invalid, or the client may not use the topic."""
        return self.error in _REFUSALS

    @property
    def available(self) -> list[int]:
        """The partitions that have a leader."""
        return [p.partition for p in self.partitions if p.leader >= 0]


class LeaderHint(NamedTuple):
    """A leader named in the response of another broker."""

    leader: BrokerId
    leader_epoch: LeaderEpoch


def _is_incomplete(topic: TopicMetadata) -> bool:
    """Return whether a topic or one of its leaders may be on its way."""
    return topic.error in _INCOMPLETE or any(p.error in _INCOMPLETE for p in topic.partitions)


class MetadataCache:
    """The newest response for every topic of interest.

    A partition never goes back to an older leader epoch as long as its topic id stays (KIP-320): answers of
    brokers that lag behind are overruled by what was seen before.
    """

    def __init__(self, max_age_ms: int) -> None:
        """Consider everything stale `max_age_ms` after an update."""
        self._max_age_ms = max_age_ms
        self._updated_at_ms: int | None = None
        self._is_stale = True
        self._has_unread_error = False
        self.brokers: dict[BrokerId, BrokerAddress] = {}
        self._racks: dict[BrokerId, str | None] = {}  # of brokers that are down, too
        self.topics: dict[str, TopicMetadata] = {}
        self.names: dict[TopicId, str] = {}
        self.controller_id = BrokerId(-1)
        self.cluster_id: str | None = None
        self.updates = 0  # counts updates, so that users see whether something may have changed

    def update(self, response: MetadataResponse, tick_ms: int, asked: Iterable[str] | None) -> bool:
        """Take a response about the topics `asked`, None meaning all; return whether it brought anything new."""
        before = (self.brokers, self.controller_id, dict(self.topics))
        self.brokers = {
            BrokerId(b.node_id): BrokerAddress(BrokerId(b.node_id), b.host, b.port, b.rack)
            for b in response.brokers
        }
        self._racks |= {broker.broker_id: broker.rack for broker in self.brokers.values()}
        self.controller_id = BrokerId(response.controller_id)
        self.cluster_id = response.cluster_id
        fresh = {t.name: self._topic(t) for t in response.topics if t.name is not None}
        if asked is None:
            self.topics = fresh
        else:
            self.topics.update(fresh)
        self.names = {t.topic_id: t.name for t in self.topics.values() if t.topic_id != NO_TOPIC_ID}
        self._updated_at_ms = tick_ms
        # As Java's client: what is not known yet is asked for again, after the back-off, not in `max_age_ms`.
        self._is_stale = any(_is_incomplete(topic) for topic in fresh.values())
        self._has_unread_error = True
        self.updates += 1
        return before != (self.brokers, self.controller_id, self.topics)

    def learn_leaders(
        self,
        leaders: Mapping[TopicPartition, LeaderHint],
        addresses: Mapping[BrokerId, BrokerAddress],
    ) -> bool:
        """Take leaders with newer epochs whose address is known (KIP-951); return whether there were any.

        The rest of what is known of the partition stays: a full update is due anyway.
        """
        found = False
        for topic_partition, (leader, leader_epoch) in leaders.items():
            known = self.partition(topic_partition)
            if known is None or leader < 0 or leader_epoch <= known.leader_epoch:
                continue
            address = addresses.get(leader) or self.brokers.get(leader)
            if address is None:
                continue
            self.brokers = {**self.brokers, leader: address}
            topic = self.topics[topic_partition.topic]
            partitions = list(topic.partitions)
            partitions[topic_partition.partition] = replace(
                known, leader=leader, leader_epoch=leader_epoch, error=ErrorCode.NONE
            )
            self.topics[topic_partition.topic] = replace(topic, partitions=tuple(partitions))
            found = True
        self.updates += found
        return found

    def take_error(self, reads: Callable[[str], bool]) -> KafkaError | None:
        """Return, once for each update, what will not get better by waiting: an invalid name, or no permission.

        `reads` says which topics are read: others were only asked about, and the caller was refused then.
        """
        is_unread, self._has_unread_error = self._has_unread_error, False
        if not is_unread:
            return None
        for code, words in _REFUSALS.items():
            names = [
                topic.name
                for topic in self.topics.values()
                if topic.error is code and reads(topic.name)
            ]
            if names:
                return KafkaError(code, f"{words}: [{', '.join(names)}]")
        return None

    def mark_stale(self) -> None:
        """Ask for an update: a leader was not where the cache says."""
        self._is_stale = True

    def is_stale(self, tick_ms: int) -> bool:
        """Return whether to ask again."""
        return self._is_stale or self.due_in_ms(tick_ms) <= 0

    def age_ms(self, tick_ms: int) -> int:
        """Return how old the last update is, 0 before the first."""
        return 0 if self._updated_at_ms is None else tick_ms - self._updated_at_ms

    def due_in_ms(self, tick_ms: int) -> int:
        """Return the milliseconds until the cache expires, unless it is marked stale."""
        if self._updated_at_ms is None:
            return 0
        return self._updated_at_ms + self._max_age_ms - tick_ms

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        """Return what is known of a partition, or None."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]

    def leader(self, topic_partition: TopicPartition) -> BrokerId | None:
        """Return the leader's id, or None while there is none or its address is unknown."""
        known = self.partition(topic_partition)
        if known is None or known.leader not in self.brokers:
            return None
        return known.leader

    def leader_epoch(self, topic_partition: TopicPartition) -> LeaderEpoch:
        """Return the leader's epoch, or -1."""
        known = self.partition(topic_partition)
        return LeaderEpoch(-1) if known is None else known.leader_epoch

    def racks(self, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
        """Return the racks of the replicas of each partition of the topics, in sync or not (KIP-881).

        A broker that is down has the rack that it had last, so that its restart moves nothing.
        """
        return {
            TopicPartition(topic, part.partition): frozenset(
                rack for rack in (self._racks.get(broker_id) for broker_id in part.replicas) if rack
            )
            for topic in topics
            if topic in self.topics
            for part in self.topics[topic].partitions
        }

    def forget(self, topic: str) -> None:
        """Remove a topic that is not used any more."""
        self.topics.pop(topic, None)

    def _topic(self, result: MetadataResponseTopic) -> TopicMetadata:
        assert result.name is not None
        old = self.topics.get(result.name)
        topic_id = TopicId(bytes(result.topic_id))
        partitions = []
        for part in sorted(result.partitions, key=lambda p: p.partition_index):
            new = PartitionMetadata(
                part.partition_index,
                BrokerId(part.leader_id),
                LeaderEpoch(part.leader_epoch),
                tuple(BrokerId(b) for b in part.replica_nodes),
                tuple(BrokerId(b) for b in part.isr_nodes),
                tuple(BrokerId(b) for b in part.offline_replicas),
                ErrorCode.of(part.error_code),
            )
            if old is not None and old.topic_id == topic_id and len(old.partitions) > new.partition:
                before = old.partitions[new.partition]
                if before.leader_epoch > new.leader_epoch >= 0:
                    new = before
            partitions.append(new)
        error = ErrorCode.of(result.error_code)
        return TopicMetadata(result.name, topic_id, result.is_internal, tuple(partitions), error)
