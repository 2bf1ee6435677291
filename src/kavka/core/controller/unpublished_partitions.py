"""New partitions that brokers, and so clients, are not shown yet: their leaders may not lead.

    StateCreated -> held -> its leader answered LeaderAndIsr, with whatever result \
                     |      nobody leads it any more                                > shown, with its topic's others
                     +----> MOST_MS are over                                       /

A producer that hears of a partition too early has its first batch refused by a broker that does not lead yet, and its
second one taken by the same broker a moment later. The log is empty then and the broker knows nothing of the producer:
it takes the second one's sequence for a beginning, the first comes back as a duplicate, and acknowledged records
are lost. See docs/explanation/decisions/007-new-partitions-are-shown-when-they-are-led.md.

All new partitions of a topic are shown together: nobody sees a part of a creation, or of a growth.
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
    """Those whose leader has not answered."""
    until_ms: int | None = None
    """None before the first tick: applying knows no time."""


class UnpublishedPartitions:
    """The partitions that are held, by topic."""

    def __init__(self) -> None:
        """Begin with nothing held."""
        self._topics: dict[str, _Withheld] = {}

    def __bool__(self) -> bool:
        """Return whether anything is held."""
        return bool(self._topics)

    def withholds_topic(self, name: str) -> bool:
        """Return whether a topic has partitions that are not shown yet."""
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

    def leader_answered(self, topic_partition: TopicPartition) -> None:
        """Learn that a partition's leader has answered, or that there is none whose answer could be waited for."""
        withheld = self._topics.get(topic_partition.topic)
        if withheld is not None:
            withheld.waiting.discard(topic_partition)

    def forget(self, name: str) -> None:
        """Hold nothing of a topic: it is another from now on, or none."""
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
