"""How far readers were behind: no anomaly, but worth knowing."""

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
    """Return how many acknowledged records of each partition nobody ever read, where there are any."""
    counts = {
        at: sum(
            write.send.value not in facts.places
            for write in facts.acknowledged(at)
            if write.send.offset is None or write.send.offset >= facts.start_of(at)
        )
        for at in facts.orders
    }
    return {at: count for at, count in counts.items() if count}


def worst_lag_ns(facts: Facts) -> dict[TopicPartition, int]:
    """Return, for each partition, for how long a record was acknowledged when a poll began that did not return it.

    A lower bound, as Jepsen's realtime lag. A consumer counts for a partition from when it has caught up once.
    """
    known = {at: _Known(facts, at) for at in facts.orders}
    positions: dict[str, dict[TopicPartition, int]] = {}
    caught_up: dict[str, set[TopicPartition]] = {}
    worst: dict[TopicPartition, int] = {}
    for operation in sorted(facts.operations, key=ended):
        mine = positions.setdefault(operation.process, {})
        current = caught_up.setdefault(operation.process, set())
        _move(mine, operation)
        current.intersection_update(mine)
        if isinstance(operation.action, Poll) and operation.outcome is Type.OK:
            for at, position in mine.items():
                since = known[at].since(position) if at in known else None
                if since is None or since > operation.invoked_ns:
                    current.add(at)
                elif at in current:
                    worst[at] = max(worst.get(at, 0), operation.invoked_ns - since)
    return worst


def _move(positions: dict[TopicPartition, int], operation: Operation) -> None:
    """Follow how far a process has come; that it went back on its own will is no lag."""
    match operation.action:
        case Poll(records):
            for record in records:
                at = record.partition
                positions[at] = max(record.offset + 1, positions.get(at, 0))
        case Assign(partitions):
            for at in positions.keys() - set(partitions):
                del positions[at]
        case Subscribe():
            positions.clear()
        case Rebalance(revoked, assigned):
            for at in (*revoked, *assigned):
                positions.pop(at, None)
        case _:
            pass


class _Known:
    """Since when it is known that a partition has a record at an offset or above it."""

    def __init__(self, facts: Facts, at: TopicPartition) -> None:
        found = sorted(
            (write.send.offset, _visible_ns(write))
            for write in facts.acknowledged(at)
            if write.send.offset is not None
        )
        self._offsets = [offset for offset, _ in found]
        self._since = [time_ns for _, time_ns in found]
        for index in range(len(found) - 2, -1, -1):
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
