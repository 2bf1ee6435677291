"""Findings about the way of a consumer through a partition: it goes forward and leaves nothing out."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.ids import TopicPartition
from kavka.testing.history.anomalies import (
    InternalNonmonotonicPoll,
    InternalPollSkip,
    NonmonotonicPoll,
    PollSkip,
)
from kavka.testing.history.facts import Facts, ended
from kavka.testing.history.operations import (
    Assign,
    Operation,
    Poll,
    Rebalance,
    Record,
    Scan,
    Seek,
    Subscribe,
    Type,
)

_SHOWN = 5

Finding = NonmonotonicPoll | PollSkip


def poll_order(facts: Facts) -> Iterator[Finding]:
    """Yield steps back and steps over known records, of every consumer and every scan."""
    consumers: dict[str, _Consumer] = {}
    for operation in sorted(facts.operations, key=ended):
        if isinstance(operation.action, Scan):
            yield from _Consumer(facts).read(operation, operation.action.records)
            continue
        consumer = consumers.get(operation.process)
        if consumer is None:
            consumer = consumers[operation.process] = _Consumer(facts)
        yield from consumer.follow(operation)


class _Consumer:
    """A process's next position in each partition, and the operation that set it."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._positions: dict[TopicPartition, tuple[int, Operation]] = {}
        self._rebalanced: dict[TopicPartition, int] = {}
        """The last rebalance of each partition."""

    def follow(self, operation: Operation) -> Iterator[Finding]:
        """Process the next operation of the process."""
        if operation.outcome is Type.FAIL:
            return
        match operation.action:
            case Assign(partitions):
                kept = set(partitions)
                self._positions = {
                    topic_partition: p
                    for topic_partition, p in self._positions.items()
                    if topic_partition in kept
                }
            case Subscribe():
                self._positions.clear()
            case Rebalance(revoked, assigned):
                for topic_partition in (*revoked, *assigned):
                    self._positions.pop(topic_partition, None)
                    self._rebalanced[topic_partition] = ended(operation)
            case Seek(partition, None):
                self._positions.pop(partition, None)
            case Seek(partition, int(offset)):
                self._positions[partition] = offset, operation
            case Poll(records):
                if operation.outcome is Type.INFO:
                    self._positions.clear()  # it may have consumed what it did not hand out
                yield from self.read(operation, records)
            case _:
                pass

    def read(self, operation: Operation, records: tuple[Record, ...]) -> Iterator[Finding]:
        """Compare the records of one poll, in order."""
        for record in records:
            topic_partition = record.partition
            position = self._positions.get(topic_partition)
            # a rebalance in the middle of a poll may start a partition again
            if (
                position is not None
                and self._rebalanced.get(topic_partition, -1) <= operation.invoked
            ):
                yield from self._step(*position, operation, record)
            self._positions[topic_partition] = record.offset + 1, operation

    def _step(
        self, position: int, before: Operation, operation: Operation, record: Record
    ) -> Iterator[Finding]:
        topic_partition = record.partition
        is_internal = self._facts.unit(before) is self._facts.unit(operation)
        if record.offset < position:
            went_back = InternalNonmonotonicPoll if is_internal else NonmonotonicPoll
            yield went_back(topic_partition, before, position, operation, record)
            return
        order = self._facts.orders[topic_partition]
        first = max(position, self._facts.start_of(topic_partition))
        skipped = order.between(first, record.offset)
        if skipped:
            shown = tuple(
                Record(topic_partition, offset, order.values[offset]) for offset in skipped[:_SHOWN]
            )
            skip = InternalPollSkip if is_internal else PollSkip
            yield skip(topic_partition, before, position, operation, record, shown, len(skipped))
