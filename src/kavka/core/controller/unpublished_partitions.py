"""New partitions that are withheld from brokers, and so from clients: their leaders may not lead yet.

    StateCreated -> withheld -> its leader answered LeaderAndIsr, with any result \
                     |          it has no leader any more                          > published, with its topic's others
                     +--------> MAX_WITHHELD_MS are over                          /

A producer that gets the metadata of a partition too early has its first batch refused by a broker that does not lead
yet, and its second one accepted by the same broker a moment later. The log is empty then and the producer is unknown:
its sequence of the second batch counts as a beginning, the first is answered as a duplicate, and acknowledged records
are lost. See docs/explanation/decisions/007-new-partitions-are-published-with-a-leader.md.

All new partitions of a topic are published together: no client sees a part of a creation.
"""

from __future__ import annotations

from typing import Final

from kavka.ids import TopicPartition
from kavka.values import field, mutable

MAX_WITHHELD_MS: Final = 5_000
"""Maximum milliseconds for which an unresponsive leader keeps a partition unpublished."""


@mutable
class _Withheld:
    """The withheld partitions of one topic."""

    partitions: dict[TopicPartition, None] = field(factory=dict)
    waiting: set[TopicPartition] = field(factory=set)
    """Partitions with a leader that has not answered."""
    until_ms: int | None = None
    """None before the first tick: applying knows no time."""


class UnpublishedPartitions:
    """The withheld partitions, by topic."""

    def __init__(self) -> None:
        """Begin empty."""
        self._topics: dict[str, _Withheld] = {}

    def __bool__(self) -> bool:
        """Return whether any partition is withheld."""
        return bool(self._topics)

    def withholds_topic(self, name: str) -> bool:
        """Return whether a topic has partitions that are not published yet."""
        return name in self._topics

    def withholds(self, topic_partition: TopicPartition) -> bool:
        """Return whether a partition is withheld."""
        withheld = self._topics.get(topic_partition.topic)
        return withheld is not None and topic_partition in withheld.partitions

    def withhold(self, topic_partition: TopicPartition) -> None:
        """Withhold a partition until its leader has answered."""
        withheld = self._topics.setdefault(topic_partition.topic, _Withheld())
        withheld.partitions[topic_partition] = None
        withheld.waiting.add(topic_partition)

    def leader_responded(self, topic_partition: TopicPartition) -> None:
        """Note that a partition's leader has answered, or that it has no leader."""
        withheld = self._topics.get(topic_partition.topic)
        if withheld is not None:
            withheld.waiting.discard(topic_partition)

    def forget(self, name: str) -> None:
        """Drop a topic's partitions: the topic was deleted, or is another one from now on."""
        self._topics.pop(name, None)

    def take_ready(self, now_ms: int) -> list[TopicPartition]:
        """Return the partitions that are to be shown now, which are not held any more."""
        ready: list[TopicPartition] = []
        for name, withheld in list(self._topics.items()):
            if withheld.until_ms is None:
                withheld.until_ms = now_ms + MAX_WITHHELD_MS
            if not withheld.waiting or withheld.until_ms <= now_ms:
                del self._topics[name]
                ready += withheld.partitions
        return ready

    def deadline_ms(self) -> int | None:
        """Return when `take_ready` is to be called again; None while nothing is held."""
        deadlines = [
            0 if not withheld.waiting or withheld.until_ms is None else withheld.until_ms
            for withheld in self._topics.values()
        ]
        return min(deadlines, default=None)
