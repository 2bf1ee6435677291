"""The producer's public face: from records to batches; the sender does the rest."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Unpack

from kavka.client.arguments import timeout_s
from kavka.client.client import Client
from kavka.client.config import PRODUCER
from kavka.client.consumer.subscription import as_offsets
from kavka.client.metrics.network import ClientMeter
from kavka.client.metrics.sensors import Window
from kavka.client.pending_calls import mark_coroutine_function, until_closed
from kavka.client.producer.accumulator import Accumulator, BufferFull
from kavka.client.producer.batch import (
    RECORD_OVERHEAD,
    Callback,
    Headers,
    ProducerBatch,
    RecordRange,
    Target,
)
from kavka.client.producer.batch_send import BatchSend
from kavka.client.producer.buffer_pool import BufferPool
from kavka.client.producer.outstanding_records import OutstandingRecords
from kavka.client.producer.pending_flushes import PendingFlushes
from kavka.client.producer.producer_meter import ProducerMeter
from kavka.client.producer.record_appender import RecordAppender
from kavka.client.producer.record_failures import RecordFailures
from kavka.client.producer.record_future import (
    RecordFuture,
    RecordMetadata,
    new_future,
    new_send_future,
)
from kavka.client.producer.record_input import RecordInput
from kavka.client.producer.record_send import RecordSend
from kavka.client.producer.record_serializer import RecordSerializer
from kavka.client.producer.records import (
    APPEND_OPTIONS,
    LARGE_VALUE,
    AppendOptions,
    ProducerRecord,
    TopicBatches,
    checked_callback,
    checked_headers,
    checked_timestamp,
    delivery_future,
    header_pairs,
)
from kavka.client.producer.records_awaiting_metadata import RecordsAwaitingMetadata
from kavka.client.producer.sender import Sender
from kavka.client.producer.sequences import SequenceNumbers
from kavka.client.producer.settings import (
    appender_settings,
    is_idempotent,
    sender_settings,
    transaction_settings,
)
from kavka.client.producer.table_send import TableSend
from kavka.client.producer.transaction_manager import TransactionManager
from kavka.client.producer.transaction_steps import ProducerCalls
from kavka.core.group_member.steps import GroupMetadata, OffsetAndMetadata
from kavka.core.transactional_producer.state import PreparedTxnState, TransactionState
from kavka.ids import TopicPartition
from kavka.io import Clock, Network, Random
from kavka.wire.records.kernel import take_keyed

log = logging.getLogger(__name__)

_ONLY_FUTURE = {"want_future": True}


class Producer(Client):
    """Sends records. Use as an asynchronous context manager, or `start` and `close`.

    Three ways in, from convenient to fast: `send` waits for one record; `append` takes a record without waiting
    for anything; `send_many` and `send_table` take many and wait once. Failures of records without a future or
    callback are raised by `flush` and `close`, and logged.

    With `transactional.id`, records are sent in transactions: `init_transactions` once, then again and again
    `begin_transaction`, sending, and `commit_transaction` or `abort_transaction`; `transaction` does both in a
    `with`. What goes wrong comes in three classes. What may work in a moment is tried again and not seen.
    AbortableError means `abort_transaction`, then the next one. FatalError (above all PRODUCER_FENCED: another
    producer has the same id) means `close`. The commit raises the failure of a record also where its future
    is not checked.
    """

    _catalogue = PRODUCER
    _creates_topics = True
    _connection_timeout = "max.block.ms"

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Check the settings (ValueError names the wrong one); nothing is opened before `start`."""
        super().__init__(config, network=network, clock=clock, random=random)
        self._max_block_ms = self._config.integer("max.block.ms")
        self._serializer = RecordSerializer(self._config)
        self._appender_settings = appender_settings(self._config)
        self._sending = sender_settings(self._config)
        self._is_idempotent = is_idempotent(self._config, self._sending)
        self._transaction_settings = transaction_settings(self._config)
        self._transaction_manager: TransactionManager | None = None
        # From this size on a record is looked at more closely.
        self._large_record = min(LARGE_VALUE, self._appender_settings.max_request_bytes + 1)
        self._uses_sticky = self._appender_settings.partitioner is None
        self._topics: dict[str, TopicBatches] = {}
        self._simple_topics: dict[str, TopicBatches] = {}
        self._record_send: Callable[[ProducerRecord], Coroutine[Any, Any, RecordMetadata]] = (
            self._send_once_started
        )

    def _make_meter(self, client_id: str, clock: Clock, window: Window) -> ClientMeter:
        self._counts = ProducerMeter(client_id, clock, window)
        return self._counts

    def _build(self) -> None:
        linger_ms = self._config.integer("linger.ms")
        memory = self._config.integer("buffer.memory")
        cluster, settings = self._cluster, self._appender_settings
        accumulator = Accumulator(settings.batch_bytes, linger_ms, memory)
        transaction = None if self._transaction_settings is None else TransactionState()
        sequences = SequenceNumbers(transaction is not None) if self._is_idempotent else None
        self._accumulator = accumulator
        self._transaction = transaction
        self._sender = Sender(
            cluster, accumulator, self._sending, sequences, self._on_done, self._counts, transaction
        )
        self._counts.buffer_bytes = accumulator.memory
        self._flushes = PendingFlushes(accumulator, self._sender.send_immediately)
        self._failures = RecordFailures(self._flushes, transaction)
        self._buffer_pool = BufferPool(
            accumulator, self._sender.send_immediately, self._max_block_ms
        )
        self._appender = RecordAppender(cluster, accumulator, self._sender, settings, transaction)
        self._topics = self._appender.topics
        # Else it stays empty, and no record takes the short way.
        if self._serializer.is_plain and self._uses_sticky:
            self._simple_topics = self._topics
        self._awaiting_metadata = RecordsAwaitingMetadata(
            cluster,
            accumulator,
            self._appender,
            self._buffer_pool,
            self._failures.fail,
            self._max_block_ms,
            None if transaction is None else self._failures.fail_transaction,
        )
        self._outstanding = OutstandingRecords(
            self._awaiting_metadata, accumulator, self._flushes, self._sender
        )
        self._input = RecordInput(
            cluster,
            self._appender,
            self._buffer_pool,
            self._awaiting_metadata,
            require_sending=self._require_sending,
            calls=self._calls,
            max_block_ms=self._max_block_ms,
        )
        self._record_send = RecordSend(
            self._input, self._serializer, self._failures, self._require_loop
        ).send
        self._batch_send = BatchSend(self._input, self._serializer, uses_sticky=self._uses_sticky)
        self._table_send = TableSend(
            self._input, cluster, self._serializer.interceptors, (settings, self._sending)
        )
        if transaction is not None:
            assert sequences is not None
            self._build_transactions(transaction, sequences)

    def _build_transactions(
        self, transaction: TransactionState, sequences: SequenceNumbers
    ) -> None:
        assert self._transaction_settings is not None
        self._transaction_manager = TransactionManager(
            self._cluster,
            transaction,
            sequences,
            self._transaction_settings,
            ProducerCalls(
                self._accumulator.close_all,
                self._outstanding.wait_until_written,
                self._outstanding.drop_unsent,
                self._sender.wait_until_idle,
            ),
            self._sender.wake,
        )
        self._sender.add_partitions = self._transaction_manager.add_partitions
        self._failures.transaction_manager = self._transaction_manager

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send what waits within `timeout_ms` (None is no bound), fail the rest, close the connections.

        Calls of other tasks that wait for a topic or for memory end with RuntimeError. A transaction that is open is
        aborted, unless it is prepared. Raise the first failure of a record without a future or callback.
        """
        if not self._is_open:
            return
        self._require_loop()
        limit_s = timeout_s(timeout_ms)
        self._is_open = False
        self._calls.end()
        self._topics.clear()  # so that every later append is checked, and refused
        try:
            async with asyncio.timeout(limit_s):
                if self._transaction_manager is not None:
                    await self._transaction_manager.close()
                await self._awaiting_metadata.wait_until_appended()
                self._appender.is_closed = True
                await self._flushes.wait()
        except TimeoutError:
            log.warning("producer closed before all was sent records=%d", self._unsent_records())
        finally:
            self._appender.is_closed = True
            await self._awaiting_metadata.close(ConnectionError("the producer was closed"))
            await self._sender.close()  # first: it has partitions added to the transaction
            if self._transaction_manager is not None:
                await self._transaction_manager.stop()
            self._sender.fail_all(
                ConnectionError("the producer was closed before the record was sent")
            )
            await self._cluster.close()
            self._stop_reporting()
        self.raise_failure()

    # Transactions

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTxnState | None:
        """Take over the transactional id: once, before anything is sent.

        An older producer with the id is fenced, and what it left open is aborted; or kept, with `keep_prepared`, and
        its name returned: then it has to be completed, committed or aborted first (KIP-939). As all calls of
        transactions, raise FatalError when the producer must be closed, RuntimeError for a call that is not possible
        now (or without `transactional.id`), TimeoutError after `max.block.ms`: then the call continues, and made again
        waits for it.
        """
        return await self._require_transactional().init(keep_prepared)

    def resume_transactions(self, identity: PreparedTxnState) -> None:
        """Continue as the producer that another process has initialised, instead of `init_transactions`.

        `identity` is that producer's `transaction_identity`, in which nothing may have been written yet, because
        sequence numbers begin at 0. When the id has been taken over since, the first transaction raises FatalError.
        """
        self._require_transactional().resume(identity)

    @property
    def transaction_identity(self) -> PreparedTxnState:
        """The producer id and epoch in which the next transaction is written; -1 before there are any."""
        return self._require_transactional().identity

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on is part of it. Raise FatalError, RuntimeError."""
        self._require_transactional().begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: GroupMetadata,
    ) -> None:
        """Commit offsets of a group if and only if the transaction is committed; `Consumer.group_metadata` says whose.

        Offsets are the next to be read. The consumer itself must not commit. Raise AbortableError (among others
        when the group has gone on without this member), FatalError, RuntimeError, TimeoutError (then abort).
        """
        transacting = self._require_transactional()
        await transacting.send_offsets(as_offsets(offsets), group_metadata)

    async def prepare_transaction(self) -> PreparedTxnState | None:
        """Write what was sent, and return the transaction's name, so that nothing is left but the decision (KIP-939).

        Then it is committed or aborted: here, by `complete_transaction`, or elsewhere, by `Admin.end_transaction`; a
        producer that is closed leaves it as it is. Without `transaction.two.phase.commit.enable` its timeout continues.
        Return None when nothing was sent, so that there is nothing to decide. Raise AbortableError when a record could
        not be written.
        """
        return await self._require_transactional().prepare()

    async def complete_transaction(self, state: PreparedTxnState | None) -> None:
        """Commit the transaction that is prepared if `state` is its name, else abort it (KIP-939).

        So a caller that keeps the name together with its own work decides by what is found there. Raise as
        `commit_transaction` and `abort_transaction`; RuntimeError when no transaction is prepared.
        """
        await self._require_transactional().complete(state)

    async def commit_transaction(self) -> None:
        """Write what was sent, and commit. Raise AbortableError when a record could not be written.

        After a TimeoutError the outcome is open: call it again, or close the producer.
        """
        await self._require_transactional().commit()

    async def abort_transaction(self) -> None:
        """Abort: records that were not sent fail with AbortableError, read_committed never sees those written."""
        await self._require_transactional().abort()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction, commit it at the end of the `with`, or abort it when that raises; then raise on."""
        self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            if self.can_abort:
                await self.abort_transaction()
            raise

    @property
    def can_abort(self) -> bool:
        """Return whether there is a transaction that `abort_transaction` would abort."""
        return self._transaction is not None and self._transaction.can_abort

    def require_begun(self) -> None:
        """Raise RuntimeError where a transactional producer is in no transaction: it sends nothing there."""
        if self._transaction is not None:
            self._transaction.require_begun()

    def _require_transactional(self) -> TransactionManager:
        self._require_loop()
        if self._transaction_manager is None:
            raise RuntimeError("transactions need the setting transactional.id")
        return self._transaction_manager

    def _require_sending(self) -> None:
        self._require_open()
        if self._transaction is not None:
            self._transaction.require_open()

    @until_closed
    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic, creating it where brokers do so. Raise TimeoutError, KafkaError.

        `Admin.describe_topics` tells more of them.
        """
        self._require_open()
        metadata = await self._cluster.topic(topic, self._max_block_ms)
        return [TopicPartition(topic, part.partition) for part in metadata.partitions]

    def append(
        self, topic: str, value: Any = None, key: Any = None, **options: Unpack[AppendOptions]
    ) -> asyncio.Future[RecordMetadata] | None:
        """Take a record without waiting; return a future of its place only if `want_future`.

        Raise BufferFull when `buffer.memory` is used up, TypeError for what is not bytes and has no serializer,
        ValueError for a partition that does not exist, KafkaError MESSAGE_TOO_LARGE above `max.request.size`.

        `callback(metadata, error)` is called once in the event loop, with the record's place or with what went wrong,
        also where that is raised. BufferFull, RuntimeError of a producer that is not open or in no transaction,
        and TypeError of an unknown keyword mean that no record was taken: there it is not called.
        """
        # The way of most records. Options are one dictionary because defaults of six keywords cost as much as all
        # that is done here.
        state = self._simple_topics.get(topic)
        if (
            (options and options != _ONLY_FUTURE)
            or state is None
            or key is not None
            or type(value) is not bytes
        ):
            if (
                state is not None
                and type(value) is type(key) is bytes
                and (not options or (len(options) == 1 and "headers" in options))
                and take_keyed(
                    state.keyed,
                    state.count,
                    value,
                    key,
                    self._appender.cached_now_ms or self._appender.read_clock(),
                    options.get("headers"),
                    RECORD_OVERHEAD,
                    self._large_record,
                )
            ):
                return None
            if not APPEND_OPTIONS.issuperset(options):
                unknown = next(name for name in options if name not in APPEND_OPTIONS)
                raise TypeError(f"append() got an unexpected keyword argument {unknown!r}")
            return self._append_with(topic, value, key, **options)
        size = len(value) + RECORD_OVERHEAD
        batch = state.sticky_batch
        left = batch.free_bytes - size
        if left < 0 or size > LARGE_VALUE or batch.keys:
            return self._append_with(topic, value, key, **options)
        batch.free_bytes = left
        future = None
        if options:
            future = new_future(self._loop)
            future.index = len(batch.values)
            batch.futures.append(future)
        batch.values.append(value)
        batch.timestamps.append(self._appender.cached_now_ms or self._appender.read_clock())
        return future

    def _append_with(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        want_future: bool = False,
        callback: Callback | None = None,
    ) -> asyncio.Future[RecordMetadata] | None:
        self._require_sending()
        if callback is not None:
            checked_callback(callback)
        pairs = headers if type(headers) is tuple else header_pairs(headers)
        state = self._simple_topics.get(topic)
        future: RecordFuture | None = None
        try:
            if timestamp_ms is not None:
                checked_timestamp(timestamp_ms)
            if (
                state is not None
                and type(value) is bytes
                and (key is None or type(key) is bytes)
                and not (want_future and callback)
            ):
                if pairs:
                    pairs = checked_headers(pairs)
                target: Target | None = callback
                if want_future:
                    target = future = new_future(self._loop)
                self._appender.append_bytes(
                    state, value, key, partition, timestamp_ms, pairs, target
                )
                return future
            given = ProducerRecord(topic, value, key, partition, timestamp_ms, pairs)
            record = self._serializer.serialize(given)
            target = self._serializer.delivery_target(callback)
            future = delivery_future(target) if want_future else None
            self._input.append(record, future or target)
        except BufferFull:
            self._counts.exhausted()
            raise  # the record may be appended again
        except Exception as error:
            self._serializer.report_failure(callback, error)
            raise
        return future

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Coroutine[Any, Any, RecordMetadata]:
        """Send a record and wait until it is written. Raise as `append`, or what went wrong; it waits for memory.

        What is returned has to be awaited, by itself, with others in `asyncio.gather`, or as a task; errors are raised
        there. Records are sent in the order of the calls, except where one has to wait for memory or for its topic.
        """
        try:
            state = self._simple_topics.get(topic)
            if (
                state is not None
                and type(value) is bytes
                and (key is None or type(key) is bytes)
                and not headers
                and timestamp_ms is None
                and self._transaction is None
                and asyncio.get_running_loop() is self._loop
            ):
                future: Any = new_send_future(self._loop)
                self._appender.append_bytes(state, value, key, partition, None, (), future)
                taken: Coroutine[Any, Any, RecordMetadata] = future
                return taken
        except Exception:  # noqa: BLE001  the longer way waits, or raises it where it is awaited
            pass
        pairs = headers if type(headers) is tuple else header_pairs(headers)
        given = ProducerRecord(topic, value, key, partition, timestamp_ms, pairs)
        return self._record_send(given)

    async def _send_once_started(self, given: ProducerRecord) -> RecordMetadata:
        """Send a record of which the coroutine was made before `start`."""
        self._require_loop()
        return await self._record_send(given)

    async def wait_for_memory(self) -> None:
        """Return when there is memory for what was refused last. Raise TimeoutError after `max.block.ms`."""
        await self._input.wait_for_memory()

    async def send_many(
        self,
        topic: str,
        records: Iterable[tuple[Any, Any]],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[RecordRange]:
        """Send (key, value) pairs in order and wait until all are written; return where they went.

        One future stands for all of them. Raise the first failure: then others may have been written.
        """
        self._require_loop()
        self._require_sending()
        if timestamp_ms is not None:
            checked_timestamp(timestamp_ms)
        with self._failures.failing_transaction():
            return await self._batch_send.send(topic, records, partition, timestamp_ms)

    async def send_table(
        self, topic: str, table: Any, *, partition: int | None = None
    ) -> list[RecordRange]:
        """Send the rows of an Arrow table or record batch and wait until all are written; return where they went.

        Columns by name: `value`, and if there are any `key` (binary or string), `timestamp` (timestamp or
        milliseconds), `partition` (integer), `headers` (list of struct of key and value). Null timestamps mean
        now. Rows that do not say their partition get it as records do, from `partitioner.class`, which is asked row
        by row. Tables of a topic are queued one after another, in the order of the calls.
        """
        self._require_loop()
        self._require_sending()
        with self._failures.failing_transaction():
            return await self._table_send.send(topic, table, partition)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything that was appended so far, and wait until it is acknowledged and its callbacks have returned.

        Raise the first failure, since the last flush, of a record without a future or callback; TimeoutError after
        `timeout_ms`.
        """
        self._require_loop()
        try:
            async with asyncio.timeout(timeout_s(timeout_ms)):
                await self.wait_until_done()
        except TimeoutError:
            raise self.flush_timeout(self.waiting_records(), timeout_ms) from None
        self.raise_failure()

    async def wait_until_done(self) -> None:
        """Wait as `flush`, and raise no failure."""
        await self._outstanding.wait_until_done()

    def flush_timeout(self, count: int, timeout_ms: int | None) -> TimeoutError:
        """Return the error of a flush that `count` records were not acknowledged in time for, with the reason."""
        reason = self._cluster.last_failure
        cause = "" if reason is None else f": {reason}"
        return TimeoutError(f"{count} records were not acknowledged within {timeout_ms} ms{cause}")

    def waiting_records(self) -> int:
        """Return how many records were taken and neither acknowledged nor given up."""
        return self._outstanding.count()

    _unsent_records = waiting_records

    def _leave_to_parent(self) -> None:
        super()._leave_to_parent()
        self._topics.clear()  # so that every later append is checked, and refused

    def raise_failure(self) -> None:
        """Raise, once, the first failure of a record without a target; in a transaction, the reason for its abort."""
        self._failures.raise_first(is_open=self._is_open)

    def fail(self, error: Exception, *, is_watched: bool = False) -> None:
        """Record the failure of a record that came into no batch: the next `flush` raises it, unless it is watched.

        In a transaction it is its commit, watched or not, that raises it.
        """
        self._failures.fail(error, is_watched=is_watched)

    def _on_done(self, batch: ProducerBatch, error: Exception | None) -> None:
        self._counts.done(batch, error is None)
        if error is not None:
            self._failures.on_batch_failed(batch, error)
        self._flushes.complete_finished()
        self._buffer_pool.wake_if_spare()


mark_coroutine_function(Producer.send)
# What help() shows of `append` in place of its one dictionary.
Producer.append.__dict__["__signature__"] = inspect.signature(Producer._append_with)
