"""Appending of records: choice of partition and batch, and opening of new batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kavka.client.cluster import Cluster
from kavka.client.producer.accumulator import Accumulator
from kavka.client.producer.batch import RECORD_OVERHEAD, HeaderPairs, ProducerBatch, Target
from kavka.client.producer.partitioner import murmur2
from kavka.client.producer.record_future import RecordFuture
from kavka.client.producer.records import (
    LARGE_VALUE,
    ProducerRecord,
    TopicBatches,
    as_bytes,
    size_of,
    too_large,
)
from kavka.client.producer.sender import Sender
from kavka.client.producer.settings import AppenderSettings
from kavka.client.serialization import described
from kavka.core.transactional_producer.state import TransactionState
from kavka.ids import TopicPartition
from kavka.wire.records.kernel import pack_headers


class RecordAppender:
    """Appends records to the accumulator's batches. `topics` has the topics whose partitions are known."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        sender: Sender,
        settings: AppenderSettings,
        transaction: TransactionState | None = None,
    ) -> None:
        """Wake the sender for each new batch; with a `transaction`, batches are opened in it alone."""
        self._cluster = cluster
        self._accumulator = accumulator
        self._sender = sender
        self._settings = settings
        self._transaction = transaction
        self._max_request_bytes = settings.max_request_bytes
        self._ignores_keys = settings.ignores_keys
        self._now_ms = cluster.clock.now_ms
        self.topics: dict[str, TopicBatches] = {}
        self.cached_now_ms = 0
        """The clock's time in this iteration of the loop, 0 when it was not read yet."""
        self.is_closed = False
        sender.before_run = self._reset_clock
        cluster.when_updated(self._update_topics)

    # Topics

    def topic_batches(self, name: str) -> TopicBatches | None:
        """Return a topic's batches if the metadata have its partitions; it is of interest from now on."""
        state = self.topics.get(name)
        known = self._cluster.metadata.topics.get(name)
        if state is None and known is not None and known.partitions:
            self._cluster.add_topics([name])
            state = self.topics[name] = self.new_topic_batches(name)
        return state

    def new_topic_batches(self, name: str) -> TopicBatches:
        """Return batches of a topic in the metadata; they are not used before they are in `topics`."""
        metadata = self._cluster.metadata
        return TopicBatches(
            metadata.topics[name],
            self._settings.batch_bytes,
            metadata.updates,
            hashes_keys=not self._ignores_keys,
        )

    # Records

    def append(
        self,
        state: TopicBatches,
        record: ProducerRecord,
        target: Target | None,
        touched: dict[ProducerBatch, int] | None = None,
    ) -> None:
        """Add a record. Raise BufferFull, ValueError, KafkaError MESSAGE_TOO_LARGE.

        `touched` collects the batches that took records, with their counts of records before.
        """
        topic, value, key, partition, timestamp_ms, headers = record
        if touched is not None and (type(value) is not bytes or type(key) is not bytes):
            value = as_bytes("value", value, topic, key)
            key = as_bytes("key", key, topic, key)
        if partition is None and self._settings.partitioner is not None:
            self.checked_size(size_of(key, value, headers), topic, key)
            self.update_partitions(state)
            partition = state.choose(self._settings.partitioner, key, value)
        self.append_bytes(state, value, key, partition, timestamp_ms, headers, target, touched)

    def append_bytes(
        self,
        state: TopicBatches,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: HeaderPairs,
        target: Target | None,
        touched: dict[ProducerBatch, int] | None = None,
    ) -> None:
        """Add a record as `append`, to the partition of its key, or to the sticky one, if it names none.

        It is one function, because a further call would be a noticeable part of what a record costs.
        """
        if value is None or headers or (size := len(value)) >= LARGE_VALUE:
            size = size_of(key, value, headers)
        else:
            size += RECORD_OVERHEAD if key is None else RECORD_OVERHEAD + len(key)
        if size > self._max_request_bytes:
            self.checked_size(size, state.name, key)
        if partition is None:
            if key is not None and not self._ignores_keys:
                partition = (murmur2(key) & 0x7FFFFFFF) % state.count
        elif not hasattr(partition, "__index__"):  # which numbers of numpy have
            raise TypeError(f"the partition is {type(partition).__name__}, not int")
        elif not 0 <= partition < state.count:
            raise ValueError(
                f"topic {state.name} has the partitions 0 to {state.count - 1}, not {partition}"
            )
        packed = pack_headers(headers) if headers else None
        batch = state.sticky_batch if partition is None else state.open.get(partition)
        if batch is None or batch.free_bytes < size:
            batch = self.batch_for(state, partition, size)
        batch.free_bytes -= size
        index = len(batch.values)
        if touched is not None:
            touched.setdefault(batch, index)
        batch.values.append(value)
        batch.timestamps.append(
            (self.cached_now_ms or self.read_clock()) if timestamp_ms is None else timestamp_ms
        )
        if batch.keys:
            batch.keys.append(key)
        elif key is not None:
            batch.keys = [None] * index
            batch.keys.append(key)
        if packed is not None:
            batch.headers[index] = packed
        if target is None:
            return
        if isinstance(target, RecordFuture):
            target.index = index
            batch.futures.append(target)
        else:
            batch.watchers.append((index, 1, target))

    def batch_for(self, state: TopicBatches, partition: int | None, size: int) -> ProducerBatch:
        """Return a batch with `size` free bytes, opening one if need be; partition None is the sticky one.

        Raise BufferFull, RuntimeError once the producer is closed or outside of a transaction.
        """
        self.require_open()
        self.update_partitions(state)
        is_sticky = partition is None
        if partition is None:
            if self._has_room(state.sticky_batch, size):
                return state.sticky_batch
            state.sticky.count(state.sticky_batch.size)
            partition = state.sticky.choose(state.available, self._cluster.random.random())
        batch = state.open.get(partition)
        if batch is None or not self._has_room(batch, size):
            topic_partition = TopicPartition(state.name, partition)
            batch = self._accumulator.open_batch(
                topic_partition, size, self._cluster.clock.tick_ms()
            )
            state.open[partition] = batch
            self._sender.wake()
            self.read_clock()
        if is_sticky:
            state.sticky_batch = batch
        return batch

    def _has_room(self, batch: ProducerBatch, size: int) -> bool:
        return batch.free_bytes >= size or (
            not batch.is_closed and self._accumulator.grow(batch, size)
        )

    def send_now(self, batches: Iterable[ProducerBatch]) -> None:
        """Send batches with the next request, without `linger.ms`."""
        for batch in batches:
            batch.may_linger = False
        self._sender.wake()

    def append_batch(self, batch: ProducerBatch) -> None:
        """Add a batch that came with all its records. Raise BufferFull, RuntimeError as `batch_for`."""
        self.require_open()
        self._accumulator.add_closed(batch)
        batch.created_ms = self._cluster.clock.tick_ms()
        self._sender.wake()

    def require_open(self) -> None:
        """Raise unless a batch may be opened now."""
        if self.is_closed:
            raise RuntimeError("the producer is not open")
        if self._transaction is not None:
            self._transaction.require_accepting()

    def _update_topics(self) -> None:
        """Update the partitions of all topics, so that no record has to look for newer metadata."""
        for state in self.topics.values():
            self.update_partitions(state)

    def update_partitions(self, state: TopicBatches) -> None:
        """Update the topic's partitions from newer metadata."""
        metadata = self._cluster.metadata
        if state.updates != metadata.updates:
            known = metadata.topics.get(state.name)
            if known is not None and known.partitions:
                state.learn(known, metadata.updates)

    def checked_size(self, size: int, topic: str, key: bytes | None) -> int:
        """Return the size. Raise KafkaError MESSAGE_TOO_LARGE above `max.request.size`, which names the record."""
        if size > self._settings.max_request_bytes:
            raise too_large(size, self._settings.max_request_bytes, described(topic, key))
        return size

    def read_clock(self) -> int:
        """Read the clock once per iteration of the loop and per batch: a system call per record would be felt."""
        if not (self.cached_now_ms or self._sender.is_scheduled):
            asyncio.get_running_loop().call_soon(self._reset_clock)
        self.cached_now_ms = self._now_ms()
        return self.cached_now_ms

    def _reset_clock(self) -> None:
        self.cached_now_ms = 0
