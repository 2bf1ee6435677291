"""Sets of partitions that most brokers have in common: one copy for all, and what each has besides.

A new controller sends every broker every partition. A set for each would be brokers times partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kavka.ids import TopicPartition


class SharedPartitions:
    """Partitions in order, for any number of sets. Nobody changes them."""

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
    """A set in the order of additions: shared partitions, and its own behind them."""

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
        """Add partitions; an empty set has them without a copy."""
        if self:
            for topic_partition in partitions.order:
                self.add(topic_partition)
        else:
            self._shared = partitions
