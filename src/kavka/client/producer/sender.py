"""Takes batches from the accumulator to the leaders and their responses back.

Driven by callbacks on the loop: `wake` schedules one `_run_once`, which expires, drains and writes what is due and
sets a timer for the rest. After a response there is one at once: a program that awaits each record has its next one
written in the iteration of the loop in which the one before was acknowledged. Nothing here awaits, so the order of
requests on a connection is the order of draining.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kavka.client.cluster import Cluster
from kavka.client.direct_future import call_first
from kavka.client.producer.accumulator import Accumulator
from kavka.client.producer.batch import ProducerBatch
from kavka.client.producer.batch_outcomes import BatchOutcomes
from kavka.client.producer.produce_requests import ProduceRequestBuilder
from kavka.client.producer.producer_id import ProducerIdInitializer
from kavka.client.producer.producer_meter import ProducerMeter
from kavka.client.producer.sequences import SequenceNumbers
from kavka.client.producer.settings import SenderSettings
from kavka.core.transactional_producer.state import TransactionState, aborted_error
from kavka.errors import AuthenticationFailed, KafkaError
from kavka.ids import BrokerId, Offset, TopicPartition
from kavka.net.peer import Peer
from kavka.net.receivers import CallbackReceiver
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.produce_response import WrittenBatch, decode_written

log = logging.getLogger(__name__)


class Sender:
    """Owns all batches from `append` to their fate. All methods belong to the loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        settings: SenderSettings,
        sequences: SequenceNumbers | None,
        on_done: Callable[[ProducerBatch, Exception | None], None],
        meter: ProducerMeter,
        transaction: TransactionState | None = None,
    ) -> None:
        """Without `sequences` the producer is not idempotent. `on_done` is called once per batch, at its end."""
        self._meter = meter
        meter.in_flight = lambda: sum(self._in_flight.values())
        self._cluster = cluster
        self._accumulator = accumulator
        self._settings = settings
        self._sequences = sequences
        self._transaction = transaction
        self._outcomes = BatchOutcomes(
            cluster, accumulator, settings, sequences, on_done, self.wake, meter.repeating
        )
        self.add_partitions: Callable[[Iterable[TopicPartition]], None] = lambda partitions: None
        """Learns, in a transaction, which partitions have something to send."""
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()
        self.is_scheduled = self._is_closed = False
        self.before_run: Callable[[], None] = lambda: None
        """Called at the beginning of each run over the queues; while `is_scheduled`, the next one is in this iteration
        of the loop, or in the one after it."""
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight: dict[BrokerId, int] = {}
        # One batch at a time, to keep order without sequences.
        self._muted_partitions: dict[TopicPartition, None] = {}
        self._connecting: dict[BrokerId, asyncio.Task[None]] = {}
        self._producer_id = None
        if sequences is not None:
            self._producer_id = ProducerIdInitializer(
                cluster,
                sequences,
                settings.request_timeout_ms,
                on_refused=self._outcomes.fail_all,
                on_retry=lambda: self._outcomes.expire(cluster.clock.tick_ms()),
                on_done=self.wake,
            )
        self._requests = ProduceRequestBuilder(
            cluster.metadata,
            accumulator,
            settings,
            sequences,
            transaction,
            partial(self._outcomes.fail, is_certain=True),
        )
        self._mutes_partitions = sequences is None and settings.max_in_flight == 1
        self._flush_count = 0
        self._continues = False
        cluster.when_updated(self.wake)

    def wake(self) -> None:
        """Schedule a run over the queues in the next iteration of the loop."""
        if not (self.is_scheduled or self._is_closed):
            self.is_scheduled = True
            self._loop.call_soon(self._run_once)

    def send_immediately(self, change: int) -> None:
        """Count the callers that wait for what is not sent yet: while there are any, batches need not be full."""
        self._flush_count += change
        self.wake()

    async def close(self) -> None:
        """Stop; batches that are left are the caller's to fail."""
        self._is_closed = True
        tasks = [*self._connecting.values()]
        if self._producer_id is not None:
            tasks += self._producer_id.tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        self._outcomes.close()

    def fail_all(self, error: Exception) -> None:
        """Fail every batch that is not done."""
        self._outcomes.fail_all(error)

    def drop_unsent(self, error: Exception) -> None:
        """Fail the batches that are neither on the wire nor perhaps written."""
        is_over = self._transaction is not None and self._transaction.has_ended
        self._outcomes.drop_unsent(error, also_sent=is_over)

    async def wait_until_idle(self) -> None:
        """Return when no request waits for its response."""
        while any(self._in_flight.values()):
            idle: asyncio.Future[None] = self._loop.create_future()
            self._idle_waiters.append(idle)
            await idle

    # Sending

    def _run_once(self) -> None:
        self.is_scheduled = False
        self.before_run()
        if self._is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._cluster.clock.tick_ms()
        self._outcomes.expire(now_ms)
        if self._transaction is not None:
            if self._transaction.has_failed:
                self.drop_unsent(self._transaction.error or aborted_error())
            else:
                self.add_partitions(self._accumulator.queues)
        elif self._sequences is not None:
            self._sequences.bump()
            if not self._sequences.has_producer and self._accumulator.incomplete:
                assert self._producer_id is not None
                self._producer_id.start()
                return
        self._send_ready(now_ms)

    def _send_ready(self, now_ms: int) -> None:
        metadata = self._cluster.metadata
        while self._accumulator.queues:
            ready = self._accumulator.ready(
                now_ms, metadata.leader, self._flush_count > 0, metadata.leader_epoch
            )
            if ready.leaderless:
                self._cluster.add_topics(ready.leaderless)
                self._cluster.mark_stale()
                self._schedule(self._cluster.retry_backoff_ms(0))
            sent = False
            for broker_id, partitions in ready.brokers.items():
                sent |= self._send_to(broker_id, partitions, now_ms)
            if not sent:
                if ready.due_ms is not None:
                    self._schedule(ready.due_ms - now_ms)
                return

    def _send_to(self, broker_id: BrokerId, partitions: list[TopicPartition], now_ms: int) -> bool:
        if self._in_flight.get(broker_id, 0) >= self._settings.max_in_flight:
            return False
        peer = self._cluster.connected(broker_id)
        if peer is None:
            self._connect(broker_id)
            return False
        if not peer.is_writable:  # with acks=0 nothing else bounds what is queued for a slow broker
            peer.call_when_writable(self.wake)
            return False
        if peer.throttled_s > 0:
            self._schedule(peer.throttled_s * 1000)
            return False
        if self._mutes_partitions:
            partitions = [
                topic_partition
                for topic_partition in partitions
                if topic_partition not in self._muted_partitions
            ]
        batches = self._accumulator.drain(
            partitions, self._settings.max_request_bytes, now_ms, self._may_drain
        )
        if not batches:
            return False
        self._write(peer, broker_id, batches)
        return True

    def _may_drain(self, batch: ProducerBatch) -> bool:
        if self._transaction is not None and not self._transaction.includes_partition(
            batch.topic_partition
        ):
            return False
        return self._sequences is None or self._sequences.may_drain(batch)

    def _write(self, peer: Peer, broker_id: BrokerId, batches: list[ProducerBatch]) -> None:
        settings = self._settings
        encoded = self._requests.encode_batches(batches)
        if not encoded:
            return
        batches = [batch for batch, _ in encoded]
        try:
            version = self._requests.version(peer)
            if settings.acks == 0:
                peer.post_without_response(self._requests.message(encoded), version)
            else:
                on_response = partial(self._on_response, peer, broker_id, batches)
                peer.post_to(
                    CallbackReceiver(on_response, self._loop),
                    ApiKey.PRODUCE,
                    version,
                    settings.request_timeout_ms,
                    partial(self._requests.encode, encoded),
                    decode_written if len(batches) == 1 else None,
                )
        except ConnectionError as error:
            self._outcomes.request_failed(batches, error)
            return
        except KafkaError as error:  # the broker is too old: trying again cannot help
            for batch in batches:
                batch.is_in_flight = False
                self._outcomes.fail(batch, error, is_certain=True)
            return
        self._meter.sending(batches, self._cluster.clock.tick_ms())
        if settings.acks == 0:
            if any(batch.futures for batch in batches):
                self._loop.call_soon(self._call_back)  # before what the futures leave to the loop
            for batch in batches:
                self._outcomes.succeed(batch, Offset(-1), -1)
            return
        self._in_flight[broker_id] = self._in_flight.get(broker_id, 0) + 1
        if self._mutes_partitions:
            self._muted_partitions.update((batch.topic_partition, None) for batch in batches)

    # Responses

    def _on_response(
        self,
        peer: Peer,
        broker_id: BrokerId,
        batches: list[ProducerBatch],
        response: Any,
        error: Exception | None,
    ) -> None:
        self._in_flight[broker_id] -= 1
        if self._idle_waiters:
            for waiter in self._idle_waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._idle_waiters.clear()
        if self._mutes_partitions:
            for batch in batches:
                self._muted_partitions.pop(batch.topic_partition, None)
        if error is not None:
            self._outcomes.request_failed(batches, error)
            return
        if not self._continues:  # before what the futures leave to the loop
            self._continues = True
            peer.call_after_responses(self._continue)
        if type(response) is WrittenBatch:
            self._outcomes.written(batches[0], response)
        else:
            self._outcomes.answered(batches, response)

    def _call_back(self) -> None:
        call_first(self._outcomes.take_called())

    def _continue(self) -> None:
        """Call the callbacks of what was written, and send what they append, with what waited, in this iteration."""
        self._continues = False
        called = self._outcomes.take_called()
        if called:
            self.is_scheduled = True
            try:
                call_first(called)
            except BaseException:  # it ends the program, which may close the producer first
                self.is_scheduled = False
                self.wake()
                raise
        if self._accumulator.incomplete or self._transaction is not None:
            self._run_once()
        else:
            self.is_scheduled = False
            self.before_run()

    def _schedule(self, wait_ms: float) -> None:
        """Set the timer, unless it rings earlier already."""
        when = self._loop.time() + max(wait_ms, 1) / 1000
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self.wake)

    # Connections

    def _connect(self, broker_id: BrokerId) -> None:
        if broker_id not in self._connecting:
            task = self._loop.create_task(self._open(broker_id))
            self._connecting[broker_id] = task

    async def _open(self, broker_id: BrokerId) -> None:
        try:
            await self._cluster.peer(broker_id)
        except AuthenticationFailed as error:
            self._outcomes.fail_all(error)
        except (OSError, KafkaError, CorruptFrame) as error:
            self._cluster.outage_warnings.warn(log, f"broker not reached broker={broker_id}", error)
            self._cluster.mark_stale()  # the leader may be elsewhere
        finally:
            self._connecting.pop(broker_id, None)
        self.wake()
