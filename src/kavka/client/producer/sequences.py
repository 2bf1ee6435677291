"""Sequence numbers of the idempotent producer (KIP-98, KIP-360). Pure.

A partition's batches get consecutive sequences when they are drained first, and keep them through retries. The
broker takes sequence n+1 only after n, so after any loss batches arrive once and in order:

    first try             assign: base_sequence = next; next += count
    answered              on_acked: last_acked = last sequence of the batch
    refused, may repeat   stays in `in_flight`; only the first of `in_flight` may be drained again
    refused permanently      the hole would block everything behind it: the epoch is bumped, and what is left of the
                          partition gets sequences from 0 in the new epoch
    outcome unknown       the partition waits until its other batches are answered; then the epoch is bumped

No more than five batches of a partition are sent from the oldest on that has no response, to old and new leaders
together, answered or not: leaders remember five. What is sent to a new leader while the old one has not answered could
otherwise push out what comes again, which is refused then.

The first batch of a partition in an epoch goes alone. A broker that has no state of the producer takes any sequence:
if the first batch met a broker that was not leader yet, and the second one the same broker a moment later, the second
would be written, and the first never again.

In a transaction no epoch is bumped here: a batch that is given up has the transaction aborted, and the coordinator
gives the epoch in which all partitions start over. What is behind a hole is not repeated.

An epoch is bumped here, without asking the broker, as the Java client does: epochs fence by being larger. Only
when they run out is a new producer id asked for.
"""

from __future__ import annotations

from kavka.client.producer.batch import NO_SEQUENCE, SEQUENCE_MASK, ProducerBatch
from kavka.core.producer_state import BATCHES_TO_RETAIN
from kavka.errors import ErrorCode
from kavka.ids import NO_PRODUCER_ID, Offset, ProducerEpoch, ProducerId, TopicPartition

_LAST_EPOCH = 32767


class _Partition:
    """Sequences of one partition. Invariant: `in_flight` is in order of sequences."""

    __slots__ = (
        "epoch",
        "in_flight",
        "last_acked",
        "last_acked_offset",
        "next",
        "numbered",
        "producer_id",
        "unresolved",
    )

    def __init__(self, producer_id: ProducerId, epoch: ProducerEpoch) -> None:
        self.in_flight: list[ProducerBatch] = []
        self.numbered = 0
        self.restart(producer_id, epoch)

    def restart(self, producer_id: ProducerId, epoch: ProducerEpoch) -> None:
        """Restart sequences at 0 in another epoch; batches in flight get new ones."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.next = 0
        self.last_acked = NO_SEQUENCE
        self.last_acked_offset = -1
        self.unresolved = False
        for batch in self.in_flight:
            assert not batch.is_in_flight
            self.number(batch)
            batch.sequence_was_reset = True

    def is_next(self, batch: ProducerBatch) -> bool:
        """Return whether a batch follows what was acknowledged last."""
        expected = 0 if self.last_acked == NO_SEQUENCE else (self.last_acked + 1) & SEQUENCE_MASK
        return batch.base_sequence == expected

    def number(self, batch: ProducerBatch) -> None:
        """Assign the next sequences to a batch."""
        batch.producer_id = self.producer_id
        batch.producer_epoch = self.epoch
        batch.base_sequence = self.next
        self.numbered += 1
        batch.ordinal = self.numbered
        self.next = (self.next + batch.count) & SEQUENCE_MASK


class SequenceNumbers:
    """The producer id, its epoch, and the sequences of all partitions."""

    def __init__(self, is_transactional: bool = False) -> None:
        """Start without a producer id; nothing may be drained before `set_producer`."""
        self._is_transactional = is_transactional
        self._broken: set[TopicPartition] = set()  # partitions with a hole, of a transaction
        self.producer_id = NO_PRODUCER_ID
        self.epoch = ProducerEpoch(-1)
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._to_bump: dict[TopicPartition, None] = {}

    @property
    def has_producer(self) -> bool:
        """Return whether there is a producer id."""
        return self.producer_id != NO_PRODUCER_ID

    def set_producer(self, producer_id: ProducerId, epoch: ProducerEpoch) -> None:
        """Take what InitProducerId gave."""
        self.producer_id = producer_id
        self.epoch = epoch

    def restart_all(self, producer_id: ProducerId, epoch: ProducerEpoch) -> None:
        """Restart the sequences of all partitions at 0, with no batch in flight: between transactions."""
        self._partitions.clear()
        self._broken.clear()
        self.set_producer(producer_id, epoch)

    def is_fatal(self, batch: ProducerBatch) -> bool:
        """Return whether the batch lies behind a hole that stays."""
        return batch.topic_partition in self._broken

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Return whether the batch, the first of its queue, may be written now."""
        if not self.has_producer or batch.topic_partition in self._to_bump:
            return False
        state = self._partitions.get(batch.topic_partition)
        if state is None:
            return True
        if batch.base_sequence != NO_SEQUENCE:
            return state.in_flight[0] is batch
        if state.unresolved:
            return False
        if not state.in_flight:
            return True
        since_the_oldest = state.numbered - state.in_flight[0].ordinal + 1
        if since_the_oldest >= BATCHES_TO_RETAIN:
            return False
        return self._is_current(state) and state.last_acked != NO_SEQUENCE

    def assign(self, batch: ProducerBatch) -> None:
        """Assign sequences to a drained batch; a repeated one keeps them."""
        if batch.base_sequence != NO_SEQUENCE:
            return
        state = self._partitions.get(batch.topic_partition)
        if state is None:
            state = _Partition(self.producer_id, self.epoch)
            self._partitions[batch.topic_partition] = state
        elif not self._is_current(state):
            assert not state.in_flight
            state.restart(self.producer_id, self.epoch)
        state.number(batch)
        state.in_flight.append(batch)

    def on_acked(self, batch: ProducerBatch, base_offset: Offset) -> None:
        """Note that the broker has the batch."""
        state = self._partitions[batch.topic_partition]
        state.in_flight.remove(batch)
        if batch.producer_epoch == state.epoch:
            last = batch.last_sequence
            if (
                state.last_acked == NO_SEQUENCE
                or (last - state.last_acked) & SEQUENCE_MASK < 1 << 30
            ):
                state.last_acked = last
            if base_offset >= 0:
                state.last_acked_offset = max(
                    state.last_acked_offset, base_offset + batch.count - 1
                )
        self._resolve(batch.topic_partition, state)

    def on_failed(self, batch: ProducerBatch, is_certain: bool) -> None:
        """Note that the batch is given up. `is_certain` says that the broker has refused it."""
        state = self._partitions[batch.topic_partition]
        state.in_flight.remove(batch)
        if self._is_transactional:
            self._broken.add(batch.topic_partition)
        elif is_certain:
            self._to_bump[batch.topic_partition] = None
        else:
            state.unresolved = True
            self._resolve(batch.topic_partition, state)

    def on_split(self, batch: ProducerBatch, halves: list[ProducerBatch]) -> None:
        """Replace the batch by its halves."""
        state = self._partitions[batch.topic_partition]
        index = state.in_flight.index(batch)
        state.in_flight[index : index + 1] = halves
        state.numbered += len(halves) - 1  # leaders remember each

    def may_repeat(self, batch: ProducerBatch, error: ErrorCode, log_start_offset: int) -> bool:
        """Return whether to send a refused batch again; this may ask for a new epoch."""
        if self._is_transactional:
            return self._may_repeat_in_transaction(batch, error, log_start_offset)
        state = self._partitions[batch.topic_partition]
        # Of an epoch that is new for the batch's sake only after the broker has acknowledged something in it.
        may_bump = state.last_acked != NO_SEQUENCE or not batch.sequence_was_reset
        if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if state.unresolved or (state.is_next(batch) and may_bump):
                self._to_bump[batch.topic_partition] = (
                    None  # the broker does not know what it had acknowledged
                )
            if batch.topic_partition in self._to_bump or state.last_acked == NO_SEQUENCE:
                return True
            # An earlier batch failed and comes first. Without one, a broker that knew nothing of the producer (after an
            # unclean election) has taken a later batch: this one could only be written out of order.
            return state.in_flight[0] is not batch
        if error is ErrorCode.UNKNOWN_PRODUCER_ID:
            if log_start_offset < 0:
                return True  # it was not said what is gone: the next response may
            if may_bump:
                self._to_bump[batch.topic_partition] = (
                    None  # the records that the broker knew us by are deleted
                )
            return True
        if error is ErrorCode.INVALID_PRODUCER_EPOCH:
            self._to_bump[batch.topic_partition] = None
            return True
        return error.retriable

    def _may_repeat_in_transaction(
        self, batch: ProducerBatch, error: ErrorCode, log_start_offset: int
    ) -> bool:
        if batch.topic_partition in self._broken:
            return False
        if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            state = self._partitions[batch.topic_partition]
            # Of what is in flight an earlier batch may have failed and come first.
            return not state.is_next(batch) and state.in_flight[0] is not batch
        if error is ErrorCode.UNKNOWN_PRODUCER_ID:
            return log_start_offset < 0
        return error.retriable

    def bump(self) -> None:
        """Start a new epoch for partitions that asked for it, as soon as nothing of them is on the wire."""
        if not self._to_bump or not self.has_producer:
            return
        waiting = (b for topic_partition in self._to_bump for b in self._in_flight(topic_partition))
        if any(batch.is_in_flight for batch in waiting):
            return
        if self.epoch == _LAST_EPOCH:
            self.producer_id, self.epoch = NO_PRODUCER_ID, ProducerEpoch(-1)
            return  # the partitions stay marked until there is a new producer id
        self.epoch = ProducerEpoch(self.epoch + 1)
        self._restart_marked()

    def restart_with_producer(self, producer_id: ProducerId, epoch: ProducerEpoch) -> None:
        """Take a producer id that replaces one with exhausted epochs."""
        self.set_producer(producer_id, epoch)
        self._restart_marked()

    def _restart_marked(self) -> None:
        for topic_partition in self._to_bump:
            state = self._partitions.get(topic_partition)
            if state is not None:
                state.restart(self.producer_id, self.epoch)
        self._to_bump.clear()

    def _in_flight(self, topic_partition: TopicPartition) -> list[ProducerBatch]:
        state = self._partitions.get(topic_partition)
        return [] if state is None else state.in_flight

    def _is_current(self, state: _Partition) -> bool:
        return state.epoch == self.epoch and state.producer_id == self.producer_id

    def _resolve(self, topic_partition: TopicPartition, state: _Partition) -> None:
        if state.unresolved and not state.in_flight:
            if (state.last_acked + 1) & SEQUENCE_MASK == state.next:
                state.unresolved = False
            else:
                self._to_bump[topic_partition] = None
