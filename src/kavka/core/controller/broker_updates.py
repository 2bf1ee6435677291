"""Pending updates of brokers: sets of dirty partitions.

So a slow broker costs no memory and never gets stale state. A control request is built when the channel to the broker
is free, from the state at that time. Requests are sent in this order:

    brokers     UpdateMetadata with the live brokers and topics that are gone (a follower applies LeaderAndIsr only if
                its leader is alive)
    replicas    LeaderAndIsr
    metadata    UpdateMetadata with partitions
    stops       StopReplica

Of LeaderAndIsr and StopReplica for one replica the later one counts: the earlier is dropped from the set.
New partitions are withheld until they are led (`unpublished_partitions`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from kavka.core.controller.replies import (
    Reply,
)
from kavka.core.controller.unpublished_partitions import UnpublishedPartitions
from kavka.core.machine import SendReply
from kavka.ids import TopicId, TopicPartition
from kavka.values import field, frozen, mutable, replace

EPOCH_DURING_DELETE = -2


class ReplicaStop(NamedTuple):
    """The way to stop a replica; the epoch fences against a later LeaderAndIsr."""

    deletes: bool
    leader_epoch: int
    topic_id: TopicId


@frozen
class BrokerUpdate:
    """The effect that makes something dirty for some brokers, once the records are written."""

    brokers: tuple[int, ...]
    leader_and_isr: Mapping[TopicPartition, bool] = field(factory=dict)
    """True for replicas that are new to the broker."""
    metadata: tuple[TopicPartition, ...] = ()
    deleted: Mapping[TopicPartition, TopicId] = field(factory=dict)
    stops: Mapping[TopicPartition, ReplicaStop] = field(factory=dict)
    live_brokers: bool = False
    """True if the set of live brokers has changed."""


Effect = SendReply[Reply] | BrokerUpdate


class SharedPartitions:
    """Partitions in order, for any number of sets; they do not change."""

    __slots__ = ("_members", "order")

    def __init__(self, order: tuple[TopicPartition, ...]) -> None:
        """Take partitions, each once."""
        self.order = order
        self._members: frozenset[TopicPartition] | None = None

    @property
    def members(self) -> frozenset[TopicPartition]:
        """The same, to look for one; made when it is first needed."""
        if self._members is None:
            self._members = frozenset(self.order)
        return self._members


_NONE = SharedPartitions(())


class PartitionSet:
    """A set: partitions that most brokers have in common, and its own behind them.

    A new controller sends every broker every partition. A copy for each would be brokers times partitions.
    """

    __slots__ = ("_own", "_shared")

    def __init__(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Begin with partitions of its own."""
        self._shared = _NONE
        # Invariant: no partition is in both.
        self._own: dict[TopicPartition, None] = dict.fromkeys(partitions)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        """Return whether a partition is in it."""
        return topic_partition in self._own or topic_partition in self._shared.members

    def __iter__(self) -> Iterator[TopicPartition]:
        """Iterate in order."""
        yield from self._shared.order
        yield from self._own

    def __len__(self) -> int:
        """Return the number of partitions."""
        return len(self._shared.order) + len(self._own)

    def add(self, topic_partition: TopicPartition) -> None:
        """Add a partition."""
        if self._shared is _NONE or topic_partition not in self._shared.members:
            self._own[topic_partition] = None

    def discard(self, topic_partition: TopicPartition) -> None:
        """Remove a partition, if it is there."""
        if topic_partition in self._shared.members:
            self._own = dict.fromkeys(self)
            self._shared = _NONE
        self._own.pop(topic_partition, None)

    def add_all(self, partitions: SharedPartitions) -> None:
        """Add partitions: without a copy, unless it shares as many already."""
        if len(partitions.order) <= len(self._shared.order):
            for topic_partition in partitions.order:
                self.add(topic_partition)
        else:
            self._own = {each: None for each in self if each not in partitions.members}
            self._shared = partitions

    def content(self) -> tuple[tuple[TopicPartition, ...], tuple[TopicPartition, ...]]:
        """Return the partitions that it has in common with other sets, without a copy, and its own.

        Sets with the same contents are equal. Two equal sets may have other contents.
        """
        return self._shared.order, tuple(self._own)


@mutable
class PendingUpdates:
    """The updates that one broker has not been sent yet."""

    live_brokers: bool = False
    deleted: dict[TopicPartition, TopicId] = field(factory=dict)
    leader_and_isr: dict[TopicPartition, bool] = field(factory=dict)
    metadata: PartitionSet = field(factory=PartitionSet)
    stops: dict[TopicPartition, ReplicaStop] = field(factory=dict)

    def __bool__(self) -> bool:
        """Return whether there is anything."""
        return bool(
            self.live_brokers or self.deleted or self.leader_and_isr or self.metadata or self.stops
        )

    def lead_or_follow(self, topic_partition: TopicPartition, *, is_new: bool) -> None:
        """Mark a replica for LeaderAndIsr; a stop that was not sent yet is void."""
        self.stops.pop(topic_partition, None)
        self.leader_and_isr[topic_partition] = (
            self.leader_and_isr.get(topic_partition, False) or is_new
        )

    def stop(self, topic_partition: TopicPartition, stop: ReplicaStop) -> None:
        """Mark the replica to be stopped; one that is to be deleted stays so."""
        self.leader_and_isr.pop(topic_partition, None)
        before = self.stops.get(topic_partition)
        deletes = stop.deletes or (before is not None and before.deletes)
        self.stops[topic_partition] = stop._replace(deletes=deletes)

    def split(self) -> list[PendingUpdates]:
        """Return two sets of updates, for half of the partitions each; none when there is only one."""
        kinds = (self.deleted, self.leader_and_isr, self.metadata, self.stops)
        partitions = sorted({topic_partition for kind in kinds for topic_partition in kind})
        if len(partitions) < 2:
            return []
        first = set(partitions[: len(partitions) // 2])
        return [self._of(first), self._of(set(partitions) - first)]

    def _of(self, partitions: Collection[TopicPartition]) -> PendingUpdates:
        """Return the updates of these partitions, with the live brokers."""
        return PendingUpdates(
            self.live_brokers,
            {w: topic_id for w, topic_id in self.deleted.items() if w in partitions},
            {w: is_new for w, is_new in self.leader_and_isr.items() if w in partitions},
            PartitionSet(w for w in self.metadata if w in partitions),
            {w: stop for w, stop in self.stops.items() if w in partitions},
        )

    def merge(self, update: BrokerUpdate, metadata: SharedPartitions) -> None:
        """Take in what an effect says; `metadata` is its metadata."""
        self.live_brokers |= update.live_brokers
        for topic_partition, topic_id in update.deleted.items():
            self.metadata.discard(topic_partition)
            self.deleted[topic_partition] = topic_id
        for topic_partition, is_new in update.leader_and_isr.items():
            self.lead_or_follow(topic_partition, is_new=is_new)
        self.metadata.add_all(metadata)
        for topic_partition, stop in update.stops.items():
            self.stop(topic_partition, stop)


class Outbox:
    """The pending updates of all brokers that can be reached. Bounded by brokers times partitions."""

    def __init__(self) -> None:
        """Start without pending updates."""
        # Invariant: no update names a partition that `unpublished` withholds.
        self._pending: dict[int, PendingUpdates] = {}
        self._shared = SharedPartitions(())
        """The metadata of the last update: a new controller's next one, for another broker, has the same."""
        self.unpublished = UnpublishedPartitions()

    def add(self, update: BrokerUpdate) -> None:
        """Take in an effect."""
        if self.unpublished and update.metadata:
            shown = tuple(
                topic_partition
                for topic_partition in update.metadata
                if not self.unpublished.withholds(topic_partition)
            )
            update = replace(update, metadata=shown)
        metadata = update.metadata
        if self._shared.order is not metadata and self._shared.order != metadata:
            self._shared = SharedPartitions(metadata)
        for broker in update.brokers:
            self._of(broker).merge(update, self._shared)

    def withhold(self, topic_partition: TopicPartition) -> None:
        """Withhold a new partition from all brokers until it has a leader."""
        self.unpublished.withhold(topic_partition)
        for pending in self._pending.values():  # a partition of that name was deleted a moment ago
            pending.metadata.discard(topic_partition)

    def leadership_written(
        self,
        topic_partition: TopicPartition,
        replicas: Iterable[int],
        live_brokers: Iterable[int],
        *,
        new: bool,
    ) -> None:
        """Note a new leader epoch: LeaderAndIsr for the replicas, UpdateMetadata for all brokers."""
        for broker in replicas:
            self._of(broker).lead_or_follow(topic_partition, is_new=new)
        self.partition_changed(topic_partition, live_brokers)

    def partition_changed(
        self, topic_partition: TopicPartition, live_brokers: Iterable[int]
    ) -> None:
        """Note that a partition looks different."""
        if self.unpublished.withholds(topic_partition):
            return  # its publication sends the state of that time
        for broker in live_brokers:
            pending = self._pending.get(broker)
            if pending is None:
                pending = self._of(broker)
            pending.metadata.add(topic_partition)

    def take(self, broker: int) -> PendingUpdates | None:
        """Return and remove the pending updates of a broker; None when there are none."""
        pending = self._pending.pop(broker, None)
        return pending if pending else None

    def put_back(self, broker: int, pending: PendingUpdates) -> None:
        """Return updates to the outbox that could not be sent; later updates of the same partitions win."""
        newer = self._pending.pop(broker, None)
        for topic_partition in [
            topic_partition
            for topic_partition in pending.metadata
            if self.unpublished.withholds(topic_partition)
        ]:
            pending.metadata.discard(topic_partition)
        if newer is not None:
            for topic_partition in newer.stops:
                pending.leader_and_isr.pop(topic_partition, None)
            for topic_partition in newer.leader_and_isr:
                pending.stops.pop(topic_partition, None)
            metadata = tuple(newer.metadata)
            update = BrokerUpdate(
                (broker,),
                newer.leader_and_isr,
                metadata,
                newer.deleted,
                newer.stops,
                newer.live_brokers,
            )
            pending.merge(update, SharedPartitions(metadata))
        self._pending[broker] = pending

    def forget_broker(self, broker: int) -> None:
        """Forget a broker that is gone."""
        self._pending.pop(broker, None)

    def waiting(self) -> list[int]:
        """Return the brokers with pending updates."""
        return [broker for broker in sorted(self._pending) if self._pending[broker]]

    def _of(self, broker: int) -> PendingUpdates:
        pending = self._pending.get(broker)
        if pending is None:
            pending = self._pending[broker] = PendingUpdates()
        return pending
