"""New partitions that brokers, and so clients, are not shown yet: their leaders may not lead.

    StateCreated -> held -> its leader answered LeaderAndIsr, with whatever result \
                     |      nobody leads it any more                                > shown, with its topic's others
                     +----> MOST_MS are over                                       /

A producer that hears of a partition too early has its first batch refused by a broker that does not lead yet, and its
second one taken by the same broker a moment later. The log is empty then and the broker knows nothing of the producer:
it takes the second one's sequence for a beginning, the first comes back as a duplicate, and acknowledged records
are lost. See docs/decisions/007-new-partitions-are-shown-when-they-are-led.md.

All new partitions of a topic are shown together: nobody sees a part of a creation, or of a growth.
"""

from __future__ import annotations

from typing import Final

from kavka.ids import TopicPartition
from kavka.values import field, mutable

MOST_MS: Final = 5_000
"""How long a leader that says nothing keeps a partition from being shown."""


@mutable
class _Held:
    """What is held of one topic."""

    partitions: dict[TopicPartition, None] = field(factory=dict)
    waiting: set[TopicPartition] = field(factory=set)
    """Those whose leader has not answered."""
    until_ms: int | None = None
    """None before the first tick: applying knows no time."""


class Unshown:
    """The partitions that are held, by topic."""

    def __init__(self) -> None:
        """Begin with nothing held."""
        self._topics: dict[str, _Held] = {}

    def __bool__(self) -> bool:
        """Tell whether anything is held."""
        return bool(self._topics)

    def holds_topic(self, name: str) -> bool:
        """Tell whether a topic has partitions that are not shown yet."""
        return name in self._topics

    def holds(self, where: TopicPartition) -> bool:
        """Tell whether nobody may be shown a partition."""
        held = self._topics.get(where.topic)
        return held is not None and where in held.partitions

    def hold(self, where: TopicPartition) -> None:
        """Show nobody a partition before its leader has answered."""
        held = self._topics.setdefault(where.topic, _Held())
        held.partitions[where] = None
        held.waiting.add(where)

    def answered(self, where: TopicPartition) -> None:
        """Learn that a partition's leader has answered, or that there is none whose answer could be waited for."""
        held = self._topics.get(where.topic)
        if held is not None:
            held.waiting.discard(where)

    def forget(self, name: str) -> None:
        """Hold nothing of a topic: it is another from now on, or none."""
        self._topics.pop(name, None)

    def take_ready(self, now_ms: int) -> list[TopicPartition]:
        """Return the partitions that are to be shown now, which are not held any more."""
        ready: list[TopicPartition] = []
        for name, held in list(self._topics.items()):
            if held.until_ms is None:
                held.until_ms = now_ms + MOST_MS
            if not held.waiting or held.until_ms <= now_ms:
                del self._topics[name]
                ready += held.partitions
        return ready

    def deadline_ms(self) -> int | None:
        """Return when `take_ready` is to be called again; None while nothing is held."""
        deadlines = [
            0 if not held.waiting or held.until_ms is None else held.until_ms
            for held in self._topics.values()
        ]
        return min(deadlines, default=None)
