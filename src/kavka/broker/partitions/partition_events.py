"""Changes of the partitions that this broker hosts, and the parts that are notified of them.

`ReplicaManager` publishes; the subscribers are called one after the other before it continues, in the order in which
`partition_subscribers` lists them. That order is part of correctness.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from kavka.broker.partitions.replica import Replica
from kavka.ids import TopicPartition


class PartitionChange(Enum):
    """The kind of a change."""

    HOSTED = auto()
    """The partition has a replica here, as yet without a role."""
    ROLE_CHANGED = auto()
    """The replica leads, or follows, in a new leader epoch."""
    STOPPED = auto()
    """The replica stops following until the controller's next request; its log stays."""
    RESUMED = auto()
    """The replica follows again in the leader epoch in which it was stopped."""
    LOW_WATERMARK_MOVED = auto()
    """The least log start offset of all replicas may have moved."""
    LOG_REPLACED = auto()
    """Another directory has its log now, which may have failed meanwhile."""
    LOG_FAILED = auto()
    """The directory of its log failed."""
    DELETED = auto()
    """The replica is removed; its log is deleted next."""


class PartitionEvent(NamedTuple):
    """A change of a partition."""

    change: PartitionChange
    replica: Replica
    stays_leader: bool = False
    """Of ROLE_CHANGED: this broker led the partition in the leader epoch before, too."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return self.replica.topic_partition


Subscriber = Callable[[PartitionEvent], None]
HighWatermarkSubscriber = Callable[[TopicPartition], None]


class PartitionEvents:
    """The subscribers to the changes of partitions."""

    def __init__(self) -> None:
        """Begin without subscribers."""
        self._subscribers: dict[PartitionChange, list[Subscriber]] = {
            change: [] for change in PartitionChange
        }
        self._of_high_watermarks: list[HighWatermarkSubscriber] = []
        self._of_high_watermarks_in: dict[str, HighWatermarkSubscriber] = {}

    def subscribe(self, subscriber: Subscriber, *changes: PartitionChange) -> None:
        """Notify `subscriber` of these changes, after those that have subscribed before."""
        for change in changes:
            self._subscribers[change].append(subscriber)

    def subscribe_to_high_watermarks(
        self, subscriber: HighWatermarkSubscriber, topic: str | None = None
    ) -> None:
        """Notify `subscriber` when a high watermark, or a log start offset, moves.

        With `topic` it is the one subscriber to that topic's partitions, notified after those to all partitions.
        """
        if topic is None:
            self._of_high_watermarks.append(subscriber)
        else:
            self._of_high_watermarks_in[topic] = subscriber

    def publish(
        self, change: PartitionChange, replica: Replica, *, stays_leader: bool = False
    ) -> None:
        """Notify the subscribers of a change."""
        event = PartitionEvent(change, replica, stays_leader)
        for notify in self._subscribers[change]:
            notify(event)

    def high_watermark_moved(self, topic_partition: TopicPartition) -> None:
        """Notify that more of a partition can be read, or that its log start moved.

        This happens for nearly every batch, so it is no `PartitionEvent`, and has subscribers of its own.
        """
        for notify in self._of_high_watermarks:
            notify(topic_partition)
        of_topic = self._of_high_watermarks_in.get(topic_partition.topic)
        if of_topic is not None:
            of_topic(topic_partition)
