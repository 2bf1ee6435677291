"""The producer's public face: from records to batches; the sender does the rest."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Self

from kavka.client.cluster import Cluster
from kavka.client.config import PRODUCER, Config, as_callable
from kavka.client.metadata import TopicMetadata
from kavka.client.producer.accumulator import Accumulator, BufferFull
from kavka.client.producer.batch import (
    RECORD_OVERHEAD,
    Acknowledged,
    Callback,
    Delivery,
    Headers,
    ProducerBatch,
    RecordMetadata,
    RecordRange,
    Target,
    Watcher,
    call,
)
from kavka.client.producer.partitioner import positive_hash
from kavka.client.producer.records import (
    LARGE_VALUE,
    ProducerRecord,
    TopicBatches,
    as_bytes,
    call_back,
    checked_headers,
    checked_timestamp,
    size_of,
)
from kavka.client.producer.sender import Sender
from kavka.client.producer.sequences import Sequences
from kavka.client.producer.settings import is_idempotent, partitioner_of, sender_settings
from kavka.doors import Chance, Clock, Network
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.net.clock import SystemChance, SystemClock
from kavka.net.network import TcpNetwork

log = logging.getLogger(__name__)

_TABLE_BATCH_BYTES = 256 * 1024
"""Size of a table's batches unless `batch.size` is given: all rows are there, so small ones gain nothing."""


class Producer:
    """Sends records. Use as an asynchronous context manager, or `start` and `close`.

    Three ways in, from convenient to fast: `send` waits for one record; `append` takes a record without waiting
    for anything; `send_many` and `send_table` take many and wait once. Failures of records that nobody watches
    are raised by `flush` and `close`, and logged.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        """Check the settings (ValueError names the wrong one); nothing is opened before `start`."""
        checked = Config(PRODUCER, config)
        self._config = checked
        self._clock = clock or SystemClock()
        self._chance = chance or SystemChance()
        self._now_ms = self._clock.now_ms
        self._network = network or TcpNetwork()
        self._batch_bytes = checked.integer("batch.size")
        self._table_batch_bytes = self._batch_bytes
        if "batch.size" not in checked.given:
            self._table_batch_bytes = _TABLE_BATCH_BYTES
        self._max_block_ms = checked.integer("max.block.ms")
        self._max_request_bytes = checked.integer("max.request.size")
        self._key_serializer = as_callable(checked, "key.serializer")
        self._value_serializer = as_callable(checked, "value.serializer")
        self._interceptors = list(checked.thing("interceptor.classes") or ())
        self._partitioner = partitioner_of(checked)
        self._ignores_keys = checked.flag("partitioner.ignore.keys")
        self._is_plain = not (self._key_serializer or self._value_serializer or self._interceptors)
        self._uses_sticky = self._partitioner is None
        self._settings = sender_settings(checked)
        self._is_idempotent = is_idempotent(checked, self._settings)
        self._accumulator = Accumulator(
            self._batch_bytes, checked.integer("linger.ms"), checked.integer("buffer.memory")
        )
        self._topics: dict[str, TopicBatches] = {}
        self._early: dict[str, deque[tuple[ProducerRecord, Target | None]]] = {}
        self._early_tasks: dict[str, asyncio.Task[None]] = {}
        self._early_bytes = 0
        self._table_turns: dict[str, asyncio.Lock] = {}
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []
        self._room_waiters: deque[asyncio.Future[None]] = deque()
        self._failure: Exception | None = None
        self._now = 0  # what the clock said in this turn of the loop, 0 when it was not read yet
        self._urgent = 0  # how many wait for what is not sent yet
        self._is_open = False

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Send what waits, then close."""
        await self.close()

    async def start(self) -> None:
        """Connect. Raise ConnectionError when none of `bootstrap.servers` answers."""
        self._cluster = Cluster(
            self._config,
            network=self._network,
            clock=self._clock,
            chance=self._chance,
            allow_auto_create=True,
        )
        sequences = Sequences() if self._is_idempotent else None
        self._sender = Sender(
            self._cluster, self._accumulator, self._settings, sequences, self._on_done
        )
        try:
            await self._cluster.start()
        except BaseException:
            await self._cluster.close()
            raise
        self._is_open = True

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send what waits within `timeout_ms` (None is no bound), fail the rest, close the connections.

        Raise the first failure of a record that nobody watched.
        """
        if not self._is_open:
            return
        self._is_open = False
        self._topics.clear()  # so that every later append is checked, and refused
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._flush()
        except TimeoutError:
            log.warning(
                "producer closed before all was sent batches=%d", len(self._accumulator.incomplete)
            )
        finally:
            for task in self._early_tasks.values():
                task.cancel()
            await asyncio.gather(*self._early_tasks.values(), return_exceptions=True)
            for topic in list(self._early):
                self._fail_early(topic, ConnectionError("the producer was closed"))
            await self._sender.close()
            self._sender.abandon(
                ConnectionError("the producer was closed before the record was sent")
            )
            await self._cluster.close()
        self.raise_failure()

    async def partitions_for(self, topic: str) -> TopicMetadata:
        """Return what is known of a topic, creating it where brokers do so. Raise TimeoutError, KafkaError."""
        self._require_open()
        return await self._cluster.topic(topic, self._max_block_ms)

    # One record

    def append(
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
        """Take a record without waiting; return a future of its place only if `want_future`.

        Raise BufferFull when `buffer.memory` is used up, TypeError for what is not bytes and has no serializer,
        ValueError for a partition that does not exist, KafkaError MESSAGE_TOO_LARGE above `max.request.size`.
        """
        if timestamp_ms is not None:
            checked_timestamp(timestamp_ms)
        state = self._topics.get(topic)
        if (
            state is None
            or key is not None
            or partition is not None
            or headers
            or want_future
            or callback is not None
            or type(value) is not bytes
            or not self._is_plain
            or not self._uses_sticky
        ):
            self._require_open()
            given = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
            return self._append_prepared(self._prepared(given), want_future, callback)
        batch = state.sticky_batch
        size = len(value) + RECORD_OVERHEAD
        room = batch.room - size
        if room < 0 or size > LARGE_VALUE:
            batch = self._batch_for(state, None, self._checked_size(size))
            room = batch.room - size
        batch.room = room
        batch.values.append(value)
        batch.timestamps.append(
            (self._now or self._read_clock()) if timestamp_ms is None else timestamp_ms
        )
        if batch.keys:
            batch.keys.append(None)
        return None

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
        self._require_open()
        if timestamp_ms is not None:
            checked_timestamp(timestamp_ms)
        given = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
        record = self._prepared(given)  # once, however often there is no room
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
        size = self._accumulator.refused_bytes
        await self._wait_until(lambda: self._has_room(size))

    async def _wait_until(self, has_room: Callable[[], bool]) -> None:
        if has_room():
            return
        self._hurry(1)
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                while not has_room():
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._room_waiters.append(waiter)
                    await waiter
        except TimeoutError:
            raise TimeoutError(
                f"Failed to allocate memory within the configured max blocking time {self._max_block_ms} ms."
            ) from None
        finally:
            self._hurry(-1)

    def _has_room(self, size: int) -> bool:
        if self._early:
            return self._accumulator.fits(self._early_bytes + size)
        return self._accumulator.has_room(size)

    def _wake_waiters(self) -> None:
        for waiter in self._room_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._room_waiters.clear()

    # Many records

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
        self._require_open()
        if timestamp_ms is not None:
            checked_timestamp(timestamp_ms)
        if topic not in self._topics:
            await self._learn_topic(topic)
        loop = asyncio.get_running_loop()
        delivery = Delivery(loop.create_future())
        touched: dict[ProducerBatch, int] = {}
        waiting = iter(records)
        add = self._add_pairs if self._is_plain else self._add_records
        rest: Any = None
        try:
            while True:
                rest = add(topic, rest, waiting, touched, partition, timestamp_ms)
                _watch(touched, delivery)
                if rest is None:
                    break
                if isinstance(rest, ProducerRecord) and rest.topic not in self._topics:
                    await self._learn_topic(rest.topic)
                else:
                    await self.room()
                self._require_open()
        except BaseException as error:
            _watch(touched, delivery)
            if delivery.future.done():
                delivery.future.exception()
            else:
                delivery.future.cancel()
            raise error
        delivery.seal()
        return await delivery.future

    def _add_pairs(
        self,
        topic: str,
        first: tuple[Any, Any] | None,
        pairs: Iterable[tuple[Any, Any]],
        touched: dict[ProducerBatch, int],
        partition: int | None,
        timestamp_ms: int | None,
    ) -> tuple[Any, Any] | None:
        """Add pairs until there is no room; return the one that did not fit, None when all did."""
        state = self._topics[topic]
        uses_sticky = self._uses_sticky and partition is None
        now_ms = self._now_ms() if timestamp_ms is None else timestamp_ms
        batch: ProducerBatch | None = None
        for pair in pairs if first is None else _chain(first, pairs):
            key, value = pair
            try:
                if (
                    key is None
                    and uses_sticky
                    and type(value) is bytes
                    and len(value) < LARGE_VALUE
                ):
                    size = len(value) + RECORD_OVERHEAD
                    chosen = state.sticky_batch
                    if chosen.room < size:
                        chosen = self._batch_for(state, None, self._checked_size(size))
                    if chosen is not batch:
                        batch = chosen
                        touched.setdefault(chosen, len(chosen.values))
                    chosen.room -= size
                    chosen.values.append(value)
                    chosen.timestamps.append(now_ms)
                    if chosen.keys:
                        chosen.keys.append(None)
                else:
                    plain = ProducerRecord(topic, value, key, partition, now_ms)
                    batch = None
                    self._add(state, plain, None, touched)
            except BufferFull:
                return pair
        return None

    def _add_records(
        self,
        topic: str,
        record: ProducerRecord | None,
        pairs: Iterator[tuple[Any, Any]],
        touched: dict[ProducerBatch, int],
        partition: int | None,
        timestamp_ms: int | None,
    ) -> ProducerRecord | None:
        """As `_add_pairs`, for interceptors and serializers. Return the record, prepared, that waits.

        It waits for room, or for its topic, if an interceptor chose another one.
        """
        target = Acknowledged(self._interceptors, None) if self._interceptors else None
        while True:
            if record is None:
                try:
                    key, value = next(pairs)
                except StopIteration:
                    return None
                given = ProducerRecord(topic, value, key, partition, timestamp_ms)
                record = self._prepared(given)
            state = self._topics.get(record.topic)
            if state is None:
                return record
            try:
                self._add(state, record, target, touched)
            except BufferFull:
                return record
            record = None

    async def send_table(
        self, topic: str, table: Any, *, partition: int | None = None
    ) -> list[RecordRange]:
        """Send the rows of an Arrow table or record batch and wait until all are written; return where they went.

        Columns by name: `value`, and if there are any `key` (binary or string), `timestamp` (timestamp or
        milliseconds), `partition` (integer), `headers` (list of struct of key and value). Null timestamps mean
        now. Tables of a topic are queued one after another, in the order of the calls.
        """
        self._require_open()
        delivery = Delivery(asyncio.get_running_loop().create_future())
        try:
            async with self._table_turns.setdefault(topic, asyncio.Lock()):
                await self._queue_table(topic, table, partition, delivery)
        except BaseException:
            delivery.future.cancel()
            raise
        delivery.seal()
        return await delivery.future

    async def _queue_table(
        self, topic: str, table: Any, partition: int | None, delivery: Delivery
    ) -> None:
        from kavka.client.producer.table import batches_of_table  # needs the extra `arrow`

        metadata = await self._cluster.topic(topic, self._max_block_ms)
        state = self._topics.get(topic) or await self._learn_topic(topic)
        sticky = state.sticky.choose(state.available, self._chance.random())
        batches = batches_of_table(
            table,
            metadata,
            partition,
            sticky,
            batch_bytes=self._table_batch_bytes,
            now_ms=self._now_ms(),
            compression=self._settings.compression,
            level=self._settings.level,
        )
        for batch in batches:
            state.sticky.count(batch.reserved)
            while True:
                try:
                    self._accumulator.add_closed(batch)
                    break
                except BufferFull:
                    await self._wait_until(partial(self._accumulator.has_room, batch.reserved))
                    self._require_open()
            batch.created_ms = self._clock.tick_ms()
            delivery.add_part()
            batch.watchers.append(Watcher(0, batch.count, delivery))
            if self._interceptors:
                told = Acknowledged(self._interceptors, None)
                batch.watchers.extend(Watcher(row, 1, told) for row in range(batch.count))
            self._sender.wake()

    # Waiting

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything that was appended so far and wait for the answers.

        Raise the first failure, since the last flush, of a record that nobody watched; TimeoutError after
        `timeout_ms`.
        """
        self._require_open()
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            await self._flush()
        self.raise_failure()

    async def _flush(self) -> None:
        if self._early_tasks:
            await asyncio.gather(*self._early_tasks.values(), return_exceptions=True)
        target = self._accumulator.last_number
        if self._accumulator.first_incomplete_number > target:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushes.append((target, done))
        self._hurry(1)
        try:
            await done
        finally:
            self._hurry(-1)

    def _hurry(self, change: int) -> None:
        self._urgent += change
        self._sender.is_urgent = self._urgent > 0
        self._sender.wake()

    def raise_failure(self) -> None:
        """Raise, once, the first failure of a record that nobody watched."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def fail(self, error: Exception) -> None:
        """Have the next `flush` raise the failure of a record that never came this far."""
        self._failure = self._failure or error

    def _require_open(self) -> None:
        if not self._is_open:
            raise RuntimeError("the producer is not open")

    def _on_done(self, batch: ProducerBatch, error: Exception | None) -> None:
        if error is not None and not batch.is_watched:
            log.error("records not sent at=%s records=%d reason=%s", batch.at, batch.count, error)
            self._failure = self._failure or error
        first = self._accumulator.first_incomplete_number
        if self._flushes:
            waiting = []
            for target, done in self._flushes:
                if target >= first:
                    waiting.append((target, done))
                elif not done.done():
                    done.set_result(None)
            self._flushes = waiting
        if self._room_waiters and self._accumulator.is_roomy:
            self._wake_waiters()

    # From record to batch

    def _append_prepared(
        self, record: ProducerRecord, want_future: bool, callback: Callback | None
    ) -> asyncio.Future[RecordMetadata] | None:
        self._require_open()
        target: Target | None = callback
        future: asyncio.Future[RecordMetadata] | None = None
        if self._interceptors:
            target = Acknowledged(self._interceptors, callback)
        if want_future:
            future = asyncio.get_running_loop().create_future()
            if target is not None:
                future.add_done_callback(call_back(target))
            target = future
        state = self._topics.get(record.topic) or self._known_topic(record.topic)
        if state is None:
            self._park(record, target)
        else:
            self._add(state, record, target, None)
        return future

    def _prepared(self, record: ProducerRecord) -> ProducerRecord:
        if not self._is_plain:
            for interceptor in self._interceptors:
                try:
                    record = interceptor.on_send(record)
                except Exception:
                    log.exception("interceptor failed in on_send topic=%s", record.topic)
            key, value = record.key, record.value
            if self._key_serializer is not None:
                key = self._key_serializer(key)
            if self._value_serializer is not None:
                value = self._value_serializer(value)
            record = record._replace(key=key, value=value)
        if record.headers:
            record = record._replace(headers=checked_headers(record.headers))
        key, value = record.key, record.value
        if (type(value) is bytes or value is None) and (type(key) is bytes or key is None):
            return record
        return record._replace(key=as_bytes("key", key), value=as_bytes("value", value))

    def _add(
        self,
        state: TopicBatches,
        record: ProducerRecord,
        target: Target | None,
        touched: dict[ProducerBatch, int] | None,
    ) -> None:
        topic, value, key, partition, timestamp_ms, headers = record
        if touched is not None and (type(value) is not bytes or type(key) is not bytes):
            value, key = as_bytes("value", value), as_bytes("key", key)
        size = self._checked_size(size_of(key, value, headers))
        if partition is None:
            partition = self._choose_partition(state, key, value)
        elif not 0 <= partition < state.count:
            raise ValueError(
                f"topic {topic} has the partitions 0 to {state.count - 1}, not {partition}"
            )
        batch = state.sticky_batch if partition is None else state.open.get(partition)
        if batch is None or batch.room < size:
            batch = self._batch_for(state, partition, size)
        index = len(batch.values)
        if touched is not None:
            touched.setdefault(batch, index)
        batch.room -= size
        batch.values.append(value)
        batch.timestamps.append(self._now_ms() if timestamp_ms is None else timestamp_ms)
        if key is not None and not batch.keys:
            batch.keys = [None] * index
            batch.keys.append(key)
        elif batch.keys:
            batch.keys.append(key)
        if headers:
            batch.headers[index] = headers
        if target is not None:
            batch.watchers.append(Watcher(index, 1, target))

    def _choose_partition(
        self, state: TopicBatches, key: bytes | None, value: bytes | None
    ) -> int | None:
        """Return the partition, or None for the sticky one."""
        if self._partitioner is None:
            if key is None or self._ignores_keys:
                return None
            if state.updates != self._cluster.metadata.updates:
                self._refresh(state)
            return positive_hash(key) % state.count
        if state.updates != self._cluster.metadata.updates:
            self._refresh(state)
        if self._partitioner == "roundrobin":
            return state.round_robin.choose(state.available)
        chosen = int(self._partitioner(state.name, key, value, state.count))
        if not 0 <= chosen < state.count:
            raise ValueError(
                f"the partitioner chose {chosen} of {state.count} partitions of {state.name}"
            )
        return chosen

    def _batch_for(self, state: TopicBatches, partition: int | None, size: int) -> ProducerBatch:
        """Return a batch with room for `size` bytes, opening one if need be. Raise BufferFull."""
        if not self._is_open and not self._early:
            raise RuntimeError("the producer is not open")
        if state.updates != self._cluster.metadata.updates:
            self._refresh(state)
        is_sticky = partition is None
        if partition is None:
            if state.sticky_batch.room >= size:
                return state.sticky_batch
            state.sticky.count(state.sticky_batch.size)
            partition = state.sticky.choose(state.available, self._chance.random())
        batch = state.open.get(partition)
        if batch is None or batch.room < size:
            self._read_clock()
            at = TopicPartition(state.name, partition)
            batch = self._accumulator.open_batch(at, size, self._clock.tick_ms())
            state.open[partition] = batch
            self._sender.wake()
        if is_sticky:
            state.sticky_batch = batch
        return batch

    def _refresh(self, state: TopicBatches) -> None:
        metadata = self._cluster.metadata
        known = metadata.topics.get(state.name)
        if known is not None and known.partitions:
            state.learn(known, metadata.updates)

    def _checked_size(self, size: int) -> int:
        if size > self._max_request_bytes:
            detail = (
                f"The message is {size} bytes when serialized which is larger than {self._max_request_bytes}, "
                "which is the value of the max.request.size configuration."
            )
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, detail)
        return size

    def _read_clock(self) -> int:
        """Read the clock once per turn of the loop and per batch: a system call per record would be felt."""
        if not self._now:
            asyncio.get_running_loop().call_soon(self._forget_now)
        self._now = self._now_ms()
        return self._now

    def _forget_now(self) -> None:
        self._now = 0

    # Records of topics that are not known yet

    def _park(self, record: ProducerRecord, target: Target | None) -> None:
        size = self._checked_size(size_of(record.key, record.value, record.headers))
        if self._early and not self._accumulator.fits(self._early_bytes + size):
            raise self._accumulator.refuse(size)
        self._early_bytes += size
        if record.timestamp_ms is None:
            record = record._replace(timestamp_ms=self._now_ms())
        self._early.setdefault(record.topic, deque()).append((record, target))
        if record.topic not in self._early_tasks:
            task = asyncio.get_running_loop().create_task(self._place_early(record.topic))
            self._early_tasks[record.topic] = task

    async def _place_early(self, topic: str) -> None:
        try:
            known = await self._cluster.topic(topic, self._max_block_ms)
            state = TopicBatches(known, self._batch_bytes, self._cluster.metadata.updates)
            waiting = self._early[topic]
            while waiting:
                record, target = waiting[0]
                size = size_of(record.key, record.value, record.headers)
                try:
                    self._add(state, record, target, None)
                except BufferFull:
                    await self._wait_until(partial(self._accumulator.has_room, size))
                    continue
                except Exception as error:  # noqa: BLE001  a user's partitioner may raise anything
                    self._fail_target(record, target, error)
                waiting.popleft()
                self._early_bytes -= size
            del self._early[topic]
            self._topics[topic] = state
        except Exception as error:  # noqa: BLE001  whatever it is, the records must not wait for ever
            self._fail_early(topic, error)
        finally:
            self._early_tasks.pop(topic, None)
            self._wake_waiters()

    async def _learn_topic(self, topic: str) -> TopicBatches:
        early = self._early_tasks.get(topic)
        if early is not None:
            await asyncio.wait({early})  # what was appended before goes first
        await self._cluster.topic(topic, self._max_block_ms)
        state = self._known_topic(topic)
        assert state is not None
        return state

    def _known_topic(self, topic: str) -> TopicBatches | None:
        """Return the state of a topic that the metadata have; None also while earlier records wait to be placed."""
        state = self._topics.get(topic)
        known = self._cluster.metadata.topics.get(topic)
        if state is None and known is not None and known.partitions and topic not in self._early:
            self._cluster.add_topics([topic])
            state = TopicBatches(known, self._batch_bytes, self._cluster.metadata.updates)
            self._topics[topic] = state
        return state

    def _fail_early(self, topic: str, error: Exception) -> None:
        for record, target in self._early.pop(topic, ()):
            self._early_bytes -= size_of(record.key, record.value, record.headers)
            self._fail_target(record, target, error)

    def _fail_target(self, record: ProducerRecord, target: Target | None, error: Exception) -> None:
        if isinstance(target, asyncio.Future):
            if not target.done():
                target.set_exception(error)
        elif callable(target):
            call(target, None, error)
        else:
            log.error("record not sent topic=%s reason=%s", record.topic, error)
            self._failure = self._failure or error


def _watch(touched: dict[ProducerBatch, int], delivery: Delivery) -> None:
    """Let the delivery wait for the records that were added since `touched` was cleared."""
    for batch, start in touched.items():
        delivery.add_part()
        batch.watchers.append(Watcher(start, len(batch.values) - start, delivery))
    touched.clear()


def _chain(first: tuple[Any, Any], rest: Iterable[tuple[Any, Any]]) -> Iterable[tuple[Any, Any]]:
    yield first
    yield from rest
