"""The outcomes of batches: written, repeated, divided or failed, by what a broker answered, or by time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kavka.client.cluster import Cluster
from kavka.client.metadata import LeaderHint
from kavka.client.producer.accumulator import Accumulator
from kavka.client.producer.batch import NO_SEQUENCE, ProducerBatch
from kavka.client.producer.record_future import RecordFuture
from kavka.client.producer.rejected_batch import refusal
from kavka.client.producer.sequences import SequenceNumbers
from kavka.client.producer.settings import SenderSettings
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.produce import ProduceResponse, ProduceResponsePartition
from kavka.wire.produce_response import WrittenBatch

log = logging.getLogger(__name__)

_WRITTEN = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_LEADER_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_STALE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


def _missing() -> ProduceResponsePartition:
    """Return the result for a batch that a response says nothing of."""
    return ProduceResponsePartition(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)


class BatchOutcomes:
    """Decides what becomes of batches that were sent, or could not be. All methods belong to the loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        settings: SenderSettings,
        sequences: SequenceNumbers | None,
        on_done: Callable[[ProducerBatch, Exception | None], None],
        wake: Callable[[], None],
        on_repeat: Callable[[ProducerBatch], None],
    ) -> None:
        """Without `sequences` the producer is not idempotent.

        `on_done` is called once per batch, `wake` for more, `on_repeat` with each batch that is sent again.
        """
        self._on_repeat = on_repeat
        self._cluster = cluster
        self._accumulator = accumulator
        self._settings = settings
        self._sequences = sequences
        self._on_done = on_done
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._called: list[RecordFuture] = []

    def close(self) -> None:
        """Stop the timer."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()

    def fail_all(self, error: Exception) -> None:
        """Fail every batch that is not done."""
        for batch in list(self._accumulator.incomplete):
            self.fail(batch, error, is_certain=False)

    def drop_unsent(self, error: Exception, *, also_sent: bool) -> None:
        """Fail the batches that are neither on the wire nor perhaps written; `also_sent` those as well."""
        for batch in list(self._accumulator.incomplete):
            is_fresh = batch.base_sequence == NO_SEQUENCE
            if not batch.is_in_flight and (is_fresh or also_sent or self._is_fatal(batch)):
                self.fail(batch, error, is_certain=False)

    def _is_fatal(self, batch: ProducerBatch) -> bool:
        return self._sequences is not None and self._sequences.is_fatal(batch)

    # Responses

    def answered(self, batches: list[ProducerBatch], response: ProduceResponse) -> None:
        """Settle batches by the response to their request."""
        results = {
            TopicPartition(topic.name, part.index): part
            for topic in response.responses
            for part in topic.partition_responses
        }
        self._learn_leaders(response, results)
        for batch in batches:
            batch.is_in_flight = False
            part = results.get(batch.topic_partition)
            if part is None:
                self._on_part(batch, _missing())
            else:
                self._on_part(batch, part)

    def written(self, batch: ProducerBatch, response: WrittenBatch) -> None:
        """Settle the batch of a request with one, when it was written."""
        batch.is_in_flight = False
        topic, partition, base_offset, log_append_time_ms = response
        if batch.topic_partition == (topic, partition):
            self.succeed(batch, Offset(base_offset), log_append_time_ms)
        else:
            self._on_part(batch, _missing())

    def _learn_leaders(
        self, response: ProduceResponse, results: dict[TopicPartition, ProduceResponsePartition]
    ) -> None:
        hints = {
            topic_partition: LeaderHint(
                BrokerId(part.current_leader.leader_id),
                LeaderEpoch(part.current_leader.leader_epoch),
            )
            for topic_partition, part in results.items()
            if part.error_code in _LEADER_MOVED and part.current_leader.leader_id >= 0
        }
        if hints:
            self._cluster.learn_leaders(hints, response.node_endpoints)

    def _on_part(self, batch: ProducerBatch, part: ProduceResponsePartition) -> None:
        code = ErrorCode.of(part.error_code)
        if code in _WRITTEN:
            known = code is ErrorCode.NONE or part.base_offset >= 0
            self.succeed(batch, Offset(part.base_offset if known else -1), part.log_append_time_ms)
            return
        if batch.is_done:
            self._drop(batch)
            return
        if code in _STALE:
            self._cluster.mark_stale()
        if code in _TOO_LARGE and batch.count > 1:
            halves = self._accumulator.split(batch)
            if self._sequences is not None:
                self._sequences.on_split(batch, halves)
            log.info("batch split partition=%s records=%d", batch.topic_partition, batch.count)
            return
        may_repeat = code.retriable
        if self._sequences is not None:
            may_repeat = self._sequences.may_repeat(batch, code, part.log_start_offset)
        # A broker that is out of step need not know what it, or an earlier leader, has written.
        is_certain = code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self._repeat(batch, refusal(part, batch.topic_partition), may_repeat, is_certain)

    def request_failed(self, batches: list[ProducerBatch], error: BaseException) -> None:
        """Handle the loss of a connection: whether the batches were written is not known."""
        self._cluster.mark_stale()
        log.info("produce request failed reason=%s", error)
        reason = error if isinstance(error, Exception) else ConnectionError(str(error))
        may_repeat = isinstance(error, OSError | CorruptFrame)
        for batch in batches:
            batch.is_in_flight = False
            if batch.is_done:
                self._drop(batch)
            else:
                self._repeat(batch, reason, may_repeat, is_certain=False)
        self._wake()

    def _repeat(
        self, batch: ProducerBatch, error: Exception, may_repeat: bool, is_certain: bool = True
    ) -> None:
        now_ms = self._cluster.clock.tick_ms()
        if (
            may_repeat
            and batch.attempts < self._settings.retries
            and not self._is_expired(batch, now_ms)
        ):
            log.info(
                "batch repeated partition=%s attempts=%d reason=%s",
                batch.topic_partition,
                batch.attempts,
                error,
            )
            self._on_repeat(batch)
            wait_ms = self._cluster.retry_backoff_ms(batch.attempts)
            self._accumulator.requeue(batch, now_ms + int(wait_ms))
        else:
            self.fail(batch, error, is_certain)

    def succeed(self, batch: ProducerBatch, base_offset: Offset, log_append_time_ms: int) -> None:
        """Report that a batch was written from `base_offset` on; -1 where that is not known."""
        if self._sequences is not None:
            self._sequences.on_acked(batch, base_offset)
        if batch.is_done:
            return  # it was late: its future has failed already
        self._accumulator.remove(batch)
        batch.complete(base_offset, log_append_time_ms, self._called)
        self._on_done(batch, None)

    def take_called(self) -> list[RecordFuture]:
        """Return the futures that are done, and whose first callbacks are to be called, since the last call."""
        called, self._called = self._called, []
        return called

    def fail(self, batch: ProducerBatch, error: Exception, is_certain: bool) -> None:
        """Report that a batch was not written: for certain, or as far as is known."""
        if (
            self._sequences is not None
            and batch.base_sequence != NO_SEQUENCE
            and not batch.is_in_flight
        ):
            self._sequences.on_failed(batch, is_certain)
        self._accumulator.remove(batch)
        batch.fail(error)
        self._on_done(batch, error)

    def _drop(self, batch: ProducerBatch) -> None:
        """Settle the sequences of a batch that was given up while it was on the wire."""
        if self._sequences is not None and batch.base_sequence != NO_SEQUENCE:
            self._sequences.on_failed(batch, is_certain=False)

    # Time

    def _is_expired(self, batch: ProducerBatch, now_ms: int) -> bool:
        return now_ms - batch.created_ms >= self._settings.delivery_timeout_ms

    def expire(self, now_ms: int) -> None:
        """Fail the batches that are older than `delivery.timeout.ms`, and set the timer for the next one."""
        timeout_ms = self._settings.delivery_timeout_ms
        for batch in self._accumulator.expired(now_ms - timeout_ms + 1):
            error = TimeoutError(
                f"Expiring {batch.count} record(s) for {batch.topic_partition}:{now_ms - batch.created_ms} ms"
                " has passed since batch creation"
            )
            self.fail(batch, error, is_certain=False)
        if self._expiry_timer is None and self._accumulator.incomplete:
            oldest = next(iter(self._accumulator.incomplete))
            wait_ms = max(oldest.created_ms + timeout_ms - now_ms, 1)
            self._expiry_timer = self._loop.call_later(wait_ms / 1000, self._on_expiry_timer)

    def _on_expiry_timer(self) -> None:
        self._expiry_timer = None
        self._wake()
