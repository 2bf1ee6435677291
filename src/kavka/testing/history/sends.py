"""Findings about the order of a producer's records in a partition."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.ids import TopicPartition
from kavka.testing.history.anomalies import (
    InternalNonmonotonicSend,
    InternalSendSkip,
    NonmonotonicSend,
    SendSkip,
)
from kavka.testing.history.facts import Facts, Outcome, Write


def send_order(facts: Facts) -> Iterator[NonmonotonicSend | SendSkip]:
    """Yield neighbours among a producer's records that are turned round, or that have others between them."""
    last: dict[tuple[str, TopicPartition], tuple[Write, int]] = {}
    for write in facts.writes.values():  # in the order in which they were invoked
        offset = _offset(facts, write)
        if offset is None:
            continue
        key = write.operation.process, write.send.partition
        if key in last:
            yield from _neighbours(facts, *last[key], write, offset)
        last[key] = write, offset


def _offset(facts: Facts, write: Write) -> int | None:
    """Return where a write stands: where it was acknowledged, else where it was read first; None if nowhere."""
    if write.outcome is Outcome.FAILED:
        return None
    if write.outcome is Outcome.COMMITTED and write.send.offset is not None:
        return write.send.offset
    places = facts.places.get(write.send.value, ())
    return min(
        (offset for topic_partition, offset in places if topic_partition == write.send.partition),
        default=None,
    )


def _neighbours(
    facts: Facts, first: Write, offset: int, second: Write, second_offset: int
) -> Iterator[NonmonotonicSend | SendSkip]:
    is_internal = first.transaction is not None and first.transaction is second.transaction
    if second_offset <= offset:
        turned = InternalNonmonotonicSend if is_internal else NonmonotonicSend
        yield turned(first, offset, second, second_offset)
        return
    between = facts.orders[first.send.partition].between(offset + 1, second_offset)
    if between:
        skip = InternalSendSkip if is_internal else SendSkip
        yield skip(first, offset, second, second_offset, tuple(between[:5]))
