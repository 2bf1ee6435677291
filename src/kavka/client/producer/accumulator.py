"""Batches that wait to be sent: a queue per partition, bounded by `buffer.memory`. Pure.

append --> [ open batch ] .. [ closed ] [ closed ] --> drain --> on the wire --> done
                                 ^                                   |
                                 '------- requeue (in order) --------'
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from kavka.client.producer.batch import NO_SEQUENCE, ProducerBatch
from kavka.ids import BrokerId, TopicPartition
from kavka.values import field, mutable

FIRST_BYTES = 16_384
"""Bytes that a batch reserves when it is opened; then it doubles them up to its limit."""
_RATIO_WEIGHT = 0.1
_SMALLEST_RATIO = 0.1


class BufferFull(Exception):
    """`buffer.memory` is used up: wait with `await producer.wait_for_memory()`, or call the asynchronous methods."""


@mutable
class Ready:
    """The batches that can be sent now."""

    brokers: dict[BrokerId, list[TopicPartition]] = field(factory=dict)
    leaderless: list[str] = field(factory=list)
    """Topics of partitions that have something to send and no known leader."""
    due_ms: int | None = None
    """Time of the next check if nothing happens."""


class Accumulator:
    """All batches that are not done.

    Invariants: a queue is never empty; only the last batch of a queue is open; `used_bytes` is the sum of what the
    batches of `incomplete` reserve; `incomplete` is in order of `number`, which is the order of creation.
    """

    def __init__(self, batch_bytes: int, linger_ms: int, memory_bytes: int) -> None:
        """Take `batch.size`, `linger.ms` and `buffer.memory`."""
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._memory_bytes = memory_bytes
        self._ratios: dict[str, float] = {}  # compressed size by plain size, per topic
        self._next_queue = 0
        self._last_number = 0
        self.queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self.incomplete: dict[ProducerBatch, None] = {}
        self.used_bytes = 0
        self.refused_bytes = 0
        """Bytes that did not fit when BufferFull was raised last."""

    def memory(self) -> tuple[int, int]:
        """Return `buffer.memory`, and how much of it is free."""
        return self._memory_bytes, max(self._memory_bytes - self.used_bytes, 0)

    def fits_in_memory(self, size: int) -> bool:
        """Return whether `size` bytes are free."""
        return self.used_bytes + size <= self._memory_bytes

    def refuse(self, size: int) -> BufferFull:
        """Keep the `size` that did not fit, and return the exception that says so."""
        self.refused_bytes = size
        return BufferFull("buffer.memory is used up by records that wait to be sent")

    def has_free_memory(self, size: int) -> bool:
        """Return whether a batch for a record of `size` bytes can be opened."""
        return (
            self.used_bytes + self._first_bytes(size) <= self._memory_bytes or not self.incomplete
        )

    @property
    def has_spare_memory(self) -> bool:
        """Return whether enough memory is free to wake waiting callers: waking them for each batch is expensive."""
        return (
            self.used_bytes <= self._memory_bytes - self._memory_bytes // 8 or not self.incomplete
        )

    def open_batch(self, topic_partition: TopicPartition, size: int, now_ms: int) -> ProducerBatch:
        """Close the partition's open batch and start another one with free memory for a record of `size` bytes.

        Raise BufferFull. A single record larger than the whole buffer is let through when nothing else waits.
        """
        limit = max(int(self._batch_bytes / self._ratios.get(topic_partition.topic, 1.0)), size)
        if not self.has_free_memory(size):
            raise self.refuse(size)
        first = self._first_bytes(size)
        batch = ProducerBatch(topic_partition, now_ms, first, first, limit=limit)
        self.used_bytes += first
        self._enqueue(batch)
        return batch

    def _first_bytes(self, size: int) -> int:
        return max(min(self._batch_bytes, FIRST_BYTES), size)

    def grow(self, batch: ProducerBatch, size: int) -> bool:
        """Reserve more memory for an open batch; return whether it has `size` free bytes then.

        It has not when it is closed, would pass its limit, or `buffer.memory` has no more for it.
        """
        needed = batch.size + size
        if batch.is_closed or needed > batch.limit:
            return False
        for wanted in (min(max(2 * batch.reserved, needed), batch.limit), needed):
            more = wanted - batch.reserved
            if self.used_bytes + more <= self._memory_bytes:
                batch.reserved += more
                batch.free_bytes += more
                self.used_bytes += more
                return True
        return False

    @property
    def last_number(self) -> int:
        """The number of the newest batch."""
        return self._last_number

    @property
    def first_incomplete_number(self) -> int:
        """The number of the oldest batch that is not done; one more than the newest without any."""
        first = next(iter(self.incomplete), None)
        return self._last_number + 1 if first is None else first.number

    def add_closed(self, batch: ProducerBatch) -> None:
        """Queue a batch that came with all its records. Raise BufferFull."""
        assert batch.is_closed
        if self.incomplete and not self.fits_in_memory(batch.reserved):
            raise self.refuse(batch.reserved)
        self.used_bytes += batch.reserved
        self._enqueue(batch)

    def _enqueue(self, batch: ProducerBatch) -> None:
        self._last_number += 1
        batch.number = self._last_number
        batch.is_queued = True
        queue = self.queues.get(batch.topic_partition)
        if queue is None:
            self.queues[batch.topic_partition] = deque((batch,))
        else:
            self._close(queue[-1])
            queue.append(batch)
        self.incomplete[batch] = None

    def close_all(self) -> None:
        """Close all batches to further records."""
        for queue in self.queues.values():
            self._close(queue[-1])

    def _close(self, batch: ProducerBatch) -> None:
        if not batch.is_closed:
            before = batch.reserved
            batch.close()
            self.used_bytes -= before - batch.reserved

    def ready(
        self,
        now_ms: int,
        leader: Callable[[TopicPartition], BrokerId | None],
        is_urgent: bool,
        leader_epoch: Callable[[TopicPartition], int] = lambda topic_partition: -1,
    ) -> Ready:
        """Return the partitions that can be sent, by leader.

        Those are partitions whose first batch is full, old enough or (`is_urgent`) wanted now.

        A repeat waits for its back-off, unless the partition has a newer leader than the one that was tried.
        """
        found = Ready()
        for topic_partition, queue in self.queues.items():
            first = queue[0]
            if first.attempts and leader_epoch(topic_partition) > first.leader_epoch >= 0:
                first.retry_at_ms = min(first.retry_at_ms, now_ms)
            due_ms = self._due_ms(first, len(queue) > 1 or is_urgent)
            if due_ms > now_ms:
                found.due_ms = due_ms if found.due_ms is None else min(found.due_ms, due_ms)
                continue
            broker = leader(topic_partition)
            if broker is None:
                found.leaderless.append(topic_partition.topic)
            else:
                found.brokers.setdefault(broker, []).append(topic_partition)
        return found

    def _due_ms(self, first: ProducerBatch, is_wanted: bool) -> int:
        if first.attempts:
            return first.retry_at_ms
        if is_wanted or first.is_closed or not first.may_linger or first.size >= first.limit:
            return first.created_ms
        return first.created_ms + self._linger_ms

    def drain(
        self,
        partitions: Iterable[TopicPartition],
        max_bytes: int,
        now_ms: int,
        may_drain: Callable[[ProducerBatch], bool],
    ) -> list[ProducerBatch]:
        """Take the first batch of each partition, up to `max_bytes` in all but at least one batch.

        Partitions take turns in being first, so that none starves behind a full request.
        """
        ordered = list(partitions)
        self._next_queue += 1
        start = self._next_queue % len(ordered) if ordered else 0
        drained: list[ProducerBatch] = []
        total = 0
        for topic_partition in ordered[start:] + ordered[:start]:
            queue = self.queues.get(topic_partition)
            if queue is None:
                continue
            first = queue[0]
            if (first.attempts and first.retry_at_ms > now_ms) or not may_drain(first):
                continue
            if drained and total + first.size > max_bytes:
                break
            self._close(first)
            queue.popleft()
            if not queue:
                del self.queues[topic_partition]
            first.is_queued = False
            first.is_in_flight = True
            drained.append(first)
            total += first.size
        return drained

    def requeue(self, batch: ProducerBatch, retry_at_ms: int) -> None:
        """Return a batch to its queue, before those that were appended after it; with sequences, in their order."""
        batch.is_in_flight = False
        batch.attempts += 1
        batch.retry_at_ms = retry_at_ms
        self._insert(batch)

    def _insert(self, batch: ProducerBatch) -> None:
        queue = self.queues.setdefault(batch.topic_partition, deque())
        index = 0
        if batch.base_sequence != NO_SEQUENCE:
            index = sum(
                other.base_sequence != NO_SEQUENCE and not _precedes(batch, other)
                for other in queue
            )
        queue.insert(index, batch)
        batch.is_queued = True

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Replace a batch that is too large by its halves, at the front of the queue."""
        halves = batch.split()
        inherited: dict[ProducerBatch, None] = {}
        for other in self.incomplete:
            inherited.update(dict.fromkeys(halves if other is batch else [other]))
        self.incomplete = inherited
        self.used_bytes += sum(half.reserved for half in halves) - batch.reserved
        for half in reversed(halves):
            self._insert(half)
        self._ratios[batch.topic_partition.topic] = 1.0
        return halves

    def remove(self, batch: ProducerBatch) -> None:
        """Forget a batch that is done and give its memory back."""
        if batch in self.incomplete:
            del self.incomplete[batch]
            self.used_bytes -= batch.reserved
        if batch.is_queued:
            batch.is_queued = False
            batch.close()
            queue = self.queues[batch.topic_partition]
            queue.remove(batch)
            if not queue:
                del self.queues[batch.topic_partition]

    def expired(self, before_ms: int) -> list[ProducerBatch]:
        """Return the batches that were created before `before_ms`, oldest first, wherever they are."""
        found = []
        for batch in self.incomplete:
            if batch.created_ms >= before_ms:
                break
            found.append(batch)
        return found

    def observe_ratio(self, topic: str, plain_bytes: int, encoded_bytes: int) -> None:
        """Record how well a topic compresses, so that its batches fill `batch.size` after compression."""
        seen = 1.05 * encoded_bytes / max(plain_bytes, 1)
        old = self._ratios.get(topic, 1.0)
        new = old + _RATIO_WEIGHT * (seen - old)
        self._ratios[topic] = min(max(new, seen, _SMALLEST_RATIO), 1.0)


def _precedes(one: ProducerBatch, other: ProducerBatch) -> bool:
    """Compare sequences, which wrap from 2^31 - 1 to 0."""
    return (other.base_sequence - one.base_sequence) & 0x7FFFFFFF < 1 << 30
