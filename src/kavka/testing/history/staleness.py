"""Staleness of readers: no anomaly, but worth knowing."""

from __future__ import annotations

from bisect import bisect_left

from kavka.ids import TopicPartition
from kavka.testing.history.facts import Facts, Write, ended
from kavka.testing.history.operations import (
    Assign,
    Operation,
    Poll,
    Rebalance,
    Subscribe,
    Type,
)


def unseen(facts: Facts) -> dict[TopicPartition, int]:
    """Return the number of acknowledged records of each partition that were never read, where there are any."""
    counts = {
        topic_partition: sum(
            write.send.value not in facts.places
            for write in facts.acknowledged(topic_partition)
            if write.send.offset is None or write.send.offset >= facts.start_of(topic_partition)
        )
        for topic_partition in facts.orders
    }
    return {topic_partition: count for topic_partition, count in counts.items() if count}


def worst_lag_ns(facts: Facts) -> dict[TopicPartition, int]:
    """Return, for each partition, for how long a record was acknowledged when a poll began that did not return it.

    A lower bound, as Jepsen's realtime lag. A consumer counts for a partition from when it has caught up once.
    """
    acknowledged = {
        topic_partition: _Known(facts, topic_partition) for topic_partition in facts.orders
    }
    positions: dict[str, dict[TopicPartition, int]] = {}
    caught_up: dict[str, set[TopicPartition]] = {}
    worst: dict[TopicPartition, int] = {}
    for operation in sorted(facts.operations, key=ended):
        mine = positions.setdefault(operation.process, {})
        current = caught_up.setdefault(operation.process, set())
        _move(mine, operation)
        current.intersection_update(mine)
        if isinstance(operation.action, Poll) and operation.outcome is Type.OK:
            for topic_partition, position in mine.items():
                since = (
                    acknowledged[topic_partition].since(position)
                    if topic_partition in acknowledged
                    else None
                )
                if since is None or since > operation.invoked_ns:
                    current.add(topic_partition)
                elif topic_partition in current:
                    worst[topic_partition] = max(
                        worst.get(topic_partition, 0), operation.invoked_ns - since
                    )
    return worst


def _move(positions: dict[TopicPartition, int], operation: Operation) -> None:
    """Follow how far a process has come; that it went back on its own will is no lag."""
    match operation.action:
        case Poll(records):
            for record in records:
                topic_partition = record.partition
                positions[topic_partition] = max(
                    record.offset + 1, positions.get(topic_partition, 0)
                )
        case Assign(partitions):
            for topic_partition in positions.keys() - set(partitions):
                del positions[topic_partition]
        case Subscribe():
            positions.clear()
        case Rebalance(revoked, assigned):
            for topic_partition in (*revoked, *assigned):
                positions.pop(topic_partition, None)
        case _:
            pass


class _Known:
    """The time since which a partition is known to have a record at an offset or above it."""

    def __init__(self, facts: Facts, topic_partition: TopicPartition) -> None:
        acknowledged = sorted(
            (write.send.offset, _visible_ns(write))
            for write in facts.acknowledged(topic_partition)
            if write.send.offset is not None
        )
        self._offsets = [offset for offset, _ in acknowledged]
        self._since = [time_ns for _, time_ns in acknowledged]
        for index in range(len(acknowledged) - 2, -1, -1):
            self._since[index] = min(self._since[index], self._since[index + 1])

    def since(self, offset: int) -> int | None:
        index = bisect_left(self._offsets, offset)
        return self._since[index] if index < len(self._since) else None


def _visible_ns(write: Write) -> int:
    """Return when a record was surely visible: acknowledged, and its transaction committed."""
    parts = [write.operation]
    if write.transaction is not None and write.transaction.end is not None:
        parts.append(write.transaction.end)
    return max(
        part.invoked_ns if part.completed_ns is None else part.completed_ns for part in parts
    )
