"""The producer's public face: from records to batches; the sender does the rest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypedDict, Unpack

from kavka.client.client import Client
from kavka.client.config import PRODUCER
from kavka.client.consumer.subscription import OffsetAndMetadata, as_offsets
from kavka.client.group_metadata import GroupMetadata
from kavka.client.metadata import TopicMetadata
from kavka.client.producer.accumulator import Accumulator, BufferFull
from kavka.client.producer.batch import (
    RECORD_OVERHEAD,
    Callback,
    Headers,
    ProducerBatch,
    RecordMetadata,
    RecordRange,
)
from kavka.client.producer.early import EarlyRecords
from kavka.client.producer.flushes import Flushes
from kavka.client.producer.many import ManyRecords
from kavka.client.producer.placing import Placing
from kavka.client.producer.prepared import PreparedTxnState
from kavka.client.producer.preparing import Preparing, check_topic
from kavka.client.producer.records import (
    LARGE_VALUE,
    ProducerRecord,
    TopicBatches,
    call_back,
    checked_timestamp,
)
from kavka.client.producer.room import Room
from kavka.client.producer.send_table import Tables
from kavka.client.producer.sender import Sender
from kavka.client.producer.sequences import Sequences
from kavka.client.producer.settings import (
    is_idempotent,
    placing_settings,
    sender_settings,
    transaction_settings,
)
from kavka.client.producer.transacting import Records, Transacting
from kavka.client.producer.transaction import Transaction
from kavka.doors import Chance, Clock, Network
from kavka.errors import KafkaError
from kavka.ids import TopicPartition

log = logging.getLogger(__name__)


class AppendOptions(TypedDict, total=False):
    """What `append` takes beside topic, value and key."""

    partition: int | None
    timestamp_ms: int | None
    headers: Headers
    want_future: bool
    callback: Callback | None


class Producer(Client):
    """Sends records. Use as an asynchronous context manager, or `start` and `close`.

    Three ways in, from convenient to fast: `send` waits for one record; `append` takes a record without waiting
    for anything; `send_many` and `send_table` take many and wait once. Failures of records that nobody watches
    are raised by `flush` and `close`, and logged.

    With `transactional.id`, records are sent in transactions: `init_transactions` once, then again and again
    `begin_transaction`, sending, and `commit_transaction` or `abort_transaction`; `transaction` does both in a
    `with`. What goes wrong comes in three classes. What may work in a moment is tried again and not seen.
    AbortableError means `abort_transaction`, then the next one. FatalError (above all PRODUCER_FENCED: another
    producer has the same id) means `close`. A record that fails is no less of a failure because nobody looks at
    its future: the commit raises it.
    """

    _catalogue = PRODUCER
    _creates_topics = True

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        """Check the settings (ValueError names the wrong one); nothing is opened before `start`."""
        super().__init__(config, network=network, clock=clock, chance=chance)
        self._max_block_ms = self._config.integer("max.block.ms")
        self._preparing = Preparing(self._config)
        self._placing_settings = placing_settings(self._config)
        self._sending = sender_settings(self._config)
        self._is_idempotent = is_idempotent(self._config, self._sending)
        self._transaction_settings = transaction_settings(self._config)
        self._transacting: Transacting | None = None
        self._uses_sticky = self._placing_settings.partitioner is None
        self._topics: dict[str, TopicBatches] = {}
        self._simple_topics: dict[str, TopicBatches] = {}

    def _build(self) -> None:
        linger_ms, memory = (
            self._config.integer("linger.ms"),
            self._config.integer("buffer.memory"),
        )
        cluster, settings = self._cluster, self._placing_settings
        accumulator = Accumulator(settings.batch_bytes, linger_ms, memory)
        transaction = None if self._transaction_settings is None else Transaction()
        sequences = Sequences(transaction is not None) if self._is_idempotent else None
        self._accumulator = accumulator
        self._transaction = transaction
        self._sender = Sender(
            cluster, accumulator, self._sending, sequences, self._on_done, transaction
        )
        self._flushes = Flushes(accumulator, self._sender.hurry)
        self._room = Room(accumulator, self._sender.hurry, self._max_block_ms)
        self._placing = Placing(cluster, accumulator, self._sender, settings, transaction)
        self._topics = self._placing.topics
        # Else it stays empty, and no record takes the short way.
        if self._preparing.is_plain and self._uses_sticky:
            self._simple_topics = self._topics
        self._early = EarlyRecords(
            cluster,
            accumulator,
            self._placing,
            self._room,
            self.fail,
            self._max_block_ms,
            None if transaction is None else self._spoil,
        )
        self._many = ManyRecords(
            self._placing,
            self._preparing,
            accumulator,
            self._room,
            self._learn_topic,
            self._uses_sticky,
        )
        self._tables = Tables(
            cluster,
            accumulator,
            self._sender,
            self._placing,
            self._room,
            self._learn_topic,
            self._preparing.interceptors,
            (settings, self._sending),
        )
        if transaction is not None:
            assert sequences is not None
            assert self._transaction_settings is not None
            self._transacting = Transacting(
                cluster,
                transaction,
                sequences,
                self._transaction_settings,
                Records(accumulator.close_all, self._written, self._drop, self._sender.quiet),
                self._sender.wake,
            )
            self._sender.take_part = self._transacting.take_part

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send what waits within `timeout_ms` (None is no bound), fail the rest, close the connections.

        A transaction that is open is aborted, unless it is prepared. Raise the first failure of a record that nobody
        watched.
        """
        if not self._is_open:
            return
        self._is_open = False
        self._topics.clear()  # so that every later append is checked, and refused
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                if self._transacting is not None:
                    await self._transacting.close()
                await self._early.placed()
                self._placing.is_closed = True
                await self._flushes.wait()
        except TimeoutError:
            log.warning(
                "producer closed before all was sent batches=%d", len(self._accumulator.incomplete)
            )
        finally:
            self._placing.is_closed = True
            if self._transacting is not None:
                await self._transacting.stop()
            await self._early.close(ConnectionError("the producer was closed"))
            await self._sender.close()
            self._sender.abandon(
                ConnectionError("the producer was closed before the record was sent")
            )
            await self._cluster.close()
        self.raise_failure()

    # Transactions

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTxnState | None:
        """Take over the transactional id: once, before anything is sent.

        An older producer with the id is fenced, and what it left open is aborted; or kept, with `keep_prepared`, and
        its name returned: then it has to be completed, committed or aborted first (KIP-939). As all calls of
        transactions, raise FatalError when the producer must be closed, RuntimeError for a call that is not possible
        now (or without `transactional.id`), TimeoutError after `max.block.ms`: then the call goes on, and made again
        waits for it.
        """
        return await self._require_transactional().init(keep_prepared)

    def resume_transactions(self, identity: PreparedTxnState) -> None:
        """Go on as the producer that another process has initialised, instead of `init_transactions`.

        `identity` is that producer's `transaction_identity`, in which nothing may have been written yet, because
        sequence numbers begin anew. When the id has been taken over since, the first transaction raises FatalError.
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
        producer that is closed leaves it as it is. Without `transaction.two.phase.commit.enable` its time-out goes on.
        Return None when nothing was sent, so that there is nothing to decide. Raise AbortableError when a record could
        not be written.
        """
        return await self._require_transactional().prepare()

    async def complete_transaction(self, state: PreparedTxnState | None) -> None:
        """Commit the transaction that is prepared if `state` is its name, else abort it (KIP-939).

        So who has kept the name together with its own work decides by what is found there. Raise as
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
        """Whether there is a transaction that `abort_transaction` would end."""
        return self._transaction is not None and self._transaction.can_abort

    def require_begun(self) -> None:
        """Raise RuntimeError where a transactional producer is in no transaction: it sends nothing there."""
        if self._transaction is not None:
            self._transaction.require_begun()

    def _require_transactional(self) -> Transacting:
        self._require_open()
        if self._transacting is None:
            raise RuntimeError("transactions need the setting transactional.id")
        return self._transacting

    def _require_sending(self) -> None:
        self._require_open()
        if self._transaction is not None:
            self._transaction.require_open()

    def _spoil(self, error: Exception) -> None:
        """Learn of a record that never came into a batch: its transaction cannot be committed."""
        if self._transacting is not None:
            self._transacting.spoil(error)

    @contextmanager
    def _spoiling(self) -> Iterator[None]:
        """Have what a call raises abort the transaction: its caller may look away, and its records would be missing."""
        try:
            yield
        except (KafkaError, OSError) as error:
            self._spoil(error)
            raise

    async def _written(self) -> None:
        while self._early or self._accumulator.incomplete:
            await self._early.placed()
            await self._flushes.wait()

    async def _drop(self, error: Exception) -> None:
        await self._early.close(error)
        self._sender.drop_unsent(error)

    async def partitions_for(self, topic: str) -> TopicMetadata:
        """Return what is known of a topic, creating it where brokers do so. Raise TimeoutError, KafkaError."""
        self._require_open()
        return await self._cluster.topic(topic, self._max_block_ms)

    def append(
        self, topic: str, value: Any = None, key: Any = None, **options: Unpack[AppendOptions]
    ) -> asyncio.Future[RecordMetadata] | None:
        """Take a record without waiting; return a future of its place only if `want_future`.

        Raise BufferFull when `buffer.memory` is used up, TypeError for what is not bytes and has no serializer,
        ValueError for a partition that does not exist, KafkaError MESSAGE_TOO_LARGE above `max.request.size`.
        """
        # The way of most records. Options are one dictionary because defaults of six keywords cost as much as all
        # that is done here.
        state = self._simple_topics.get(topic)
        if options or key is not None or state is None or type(value) is not bytes:
            return self._append_with(topic, value, key, **options)
        size = len(value) + RECORD_OVERHEAD
        batch = state.sticky_batch
        room = batch.room - size
        if room < 0 or size > LARGE_VALUE or batch.keys:
            return self._append_with(topic, value, key)
        batch.room = room
        batch.values.append(value)
        batch.timestamps.append(self._placing.now or self._placing.read_clock())
        return None

    def _append_with(
        self,
        topic: str,
        value: Any,
        key: Any,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        want_future: bool = False,
        callback: Callback | None = None,
    ) -> asyncio.Future[RecordMetadata] | None:
        self._require_sending()
        if timestamp_ms is not None:
            checked_timestamp(timestamp_ms)
        given = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
        return self._append_prepared(self._preparing.prepared(given), want_future, callback)

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """Send a record and wait until it is written. Raise as `append`, or what went wrong; it waits for room."""
        self._require_sending()
        if timestamp_ms is not None:
            checked_timestamp(timestamp_ms)
        given = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
        record = self._preparing.prepared(given)  # once, however often there is no room
        with self._spoiling():
            if record.topic not in self._topics:
                await self._cluster.topic(record.topic, self._max_block_ms)
            while True:
                try:
                    future = self._append_prepared(record, True, None)
                    break
                except BufferFull:
                    await self.room()
        assert future is not None
        return await future

    async def room(self) -> None:
        """Return when there is room for what was refused last. Raise TimeoutError after `max.block.ms`."""
        await self._room.wait_for(self._accumulator.refused_bytes)

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
        self._require_sending()
        if timestamp_ms is not None:
            checked_timestamp(timestamp_ms)
        with self._spoiling():
            return await self._many.send(topic, records, partition, timestamp_ms)

    async def send_table(
        self, topic: str, table: Any, *, partition: int | None = None
    ) -> list[RecordRange]:
        """Send the rows of an Arrow table or record batch and wait until all are written; return where they went.

        Columns by name: `value`, and if there are any `key` (binary or string), `timestamp` (timestamp or
        milliseconds), `partition` (integer), `headers` (list of struct of key and value). Null timestamps mean
        now. Rows that do not say their partition get it as records do, from `partitioner.class`, which is asked row
        by row. Tables of a topic are queued one after another, in the order of the calls.
        """
        self._require_sending()
        with self._spoiling():
            return await self._tables.send(topic, table, partition)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything that was appended so far and wait for the answers.

        Raise the first failure, since the last flush, of a record that nobody watched; TimeoutError after
        `timeout_ms`.
        """
        self._require_open()
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            await self._early.placed()
            await self._flushes.wait()
        self.raise_failure()

    def waiting_records(self) -> int:
        """Return how many records were taken and neither acknowledged nor given up."""
        batches = self._accumulator.incomplete
        return sum(batch.count for batch in batches) + self._early.count()

    def _unsent_records(self) -> int:
        return self.waiting_records()

    def _leave_to_parent(self) -> None:
        super()._leave_to_parent()
        self._topics.clear()  # so that every later append is checked, and refused

    def raise_failure(self) -> None:
        """Raise, once, the first failure of a record that nobody watched; in a transaction, why it must be aborted."""
        if self._transaction is not None and self._is_open:
            self._transaction.raise_error()
        self._flushes.raise_failure()

    def fail(self, error: Exception) -> None:
        """Have the next `flush` raise the failure of a record that never came this far."""
        if self._transacting is None or (self._transaction and self._transaction.takes_none):
            self._flushes.fail(error)
        else:
            self._transacting.spoil(error)

    def _on_done(self, batch: ProducerBatch, error: Exception | None) -> None:
        if error is not None and self._transacting is not None:
            self._transacting.on_batch_failed(batch, error)
        elif error is not None and not batch.is_watched:
            log.error("records not sent at=%s records=%d reason=%s", batch.at, batch.count, error)
            self.fail(error)
        self._flushes.settle()
        self._room.wake_if_roomy()

    def _append_prepared(
        self, record: ProducerRecord, want_future: bool, callback: Callback | None
    ) -> asyncio.Future[RecordMetadata] | None:
        self._require_sending()
        target = self._preparing.target(callback)
        future: asyncio.Future[RecordMetadata] | None = None
        if want_future:
            future = asyncio.get_running_loop().create_future()
            if target is not None:
                future.add_done_callback(call_back(target))
            target = future
        state = None if record.topic in self._early else self._placing.topic(record.topic)
        if state is None:
            self._early.park(record, target)
        else:
            self._placing.add(state, record, target)
        return future

    async def _learn_topic(self, topic: str) -> TopicBatches:
        check_topic(topic)
        await self._early.placed(topic)  # what was appended before goes first
        await self._cluster.topic(topic, self._max_block_ms)
        state = self._placing.topic(topic)
        assert state is not None
        return state
