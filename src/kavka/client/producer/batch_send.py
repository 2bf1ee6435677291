"""Many records in one call: added in a tight loop, with one delivery for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kavka.client.producer.accumulator import BufferFull
from kavka.client.producer.batch import (
    RECORD_OVERHEAD,
    Acknowledged,
    Delivery,
    ProducerBatch,
    RecordRange,
)
from kavka.client.producer.record_input import RecordInput
from kavka.client.producer.record_serializer import RecordSerializer
from kavka.client.producer.records import LARGE_VALUE, ProducerRecord
from kavka.wire.records.kernel import take_values

Pair = tuple[Any, Any]


class BatchSend:
    """`send_many`: waits between bunches, for memory and for topics, and never within one."""

    def __init__(
        self, records: RecordInput, serializer: RecordSerializer, *, uses_sticky: bool
    ) -> None:
        """`uses_sticky` says that records without a key need no partitioner."""
        self._input = records
        self._appender = records.appender
        self._serializer = serializer
        self._uses_sticky = uses_sticky

    async def send(
        self, topic: str, records: Iterable[Pair], partition: int | None, timestamp_ms: int | None
    ) -> list[RecordRange]:
        """Add all, and wait until all are written."""
        _require_pairs(records)
        if topic not in self._appender.topics:
            await self._input.topic(topic)
        delivery = Delivery(asyncio.get_running_loop().create_future())
        touched: dict[ProducerBatch, int] = {}
        waiting: Any = iter(records)
        add: Any = self._add_pairs if self._serializer.is_plain else self._add_records
        if self._serializer.is_plain and self._uses_sticky and type(records) in (list, tuple):
            add, waiting = self._add_list, records
        rest: Any = None
        try:
            while True:
                rest = add(topic, rest, waiting, touched, partition, timestamp_ms)
                self._add_watchers(touched, delivery)
                if rest is None:
                    break
                if isinstance(rest, ProducerRecord) and rest.topic not in self._appender.topics:
                    await self._input.topic(rest.topic)
                else:
                    await self._input.wait_for_memory()
                if topic not in self._appender.topics:
                    raise RuntimeError("the producer is not open")  # closed meanwhile
        except BaseException as error:
            self._add_watchers(touched, delivery)
            if delivery.future.done():
                delivery.future.exception()
            else:
                delivery.future.cancel()
            raise error
        delivery.close()
        return await delivery.future

    def _add_list(
        self,
        topic: str,
        first: int | None,
        pairs: Sequence[Pair],
        touched: dict[ProducerBatch, int],
        partition: int | None,
        timestamp_ms: int | None,
    ) -> int | None:
        """As `_add_pairs`, and values without keys at once. Return the index of the pair that did not fit."""
        appender = self._appender
        state = appender.topics[topic]
        now_ms = appender.read_clock() if timestamp_ms is None else timestamp_ms
        index = first or 0
        while index < len(pairs):
            key, value = pairs[index]
            batch = state.sticky_batch
            if key is None and partition is None and batch.free_bytes > 0 and not batch.keys:
                count = len(batch.values)
                index, used = take_values(
                    pairs,
                    index,
                    batch.values,
                    batch.timestamps,
                    now_ms,
                    batch.free_bytes,
                    RECORD_OVERHEAD,
                    LARGE_VALUE,
                )
                if used:
                    touched.setdefault(batch, count)
                    batch.free_bytes -= used
                    continue
            record = ProducerRecord(topic, value, key, partition, now_ms)
            try:
                appender.append(state, record, None, touched)
            except BufferFull:
                return index
            index += 1
        return None

    def _add_pairs(
        self,
        topic: str,
        first: Pair | None,
        pairs: Iterable[Pair],
        touched: dict[ProducerBatch, int],
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Pair | None:
        """Add pairs until there is no memory; return the one that did not fit, None when all did."""
        appender = self._appender
        state = appender.topics[topic]
        uses_sticky = self._uses_sticky and partition is None
        now_ms = appender.read_clock() if timestamp_ms is None else timestamp_ms
        batch: ProducerBatch | None = None
        for pair in pairs if first is None else _prepend(first, pairs):
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
                    if chosen.free_bytes < size:
                        chosen = appender.batch_for(
                            state, None, appender.checked_size(size, topic, None)
                        )
                    if chosen is not batch:
                        batch = chosen
                        touched.setdefault(chosen, len(chosen.values))
                    chosen.free_bytes -= size
                    chosen.values.append(value)
                    chosen.timestamps.append(now_ms)
                    if chosen.keys:
                        chosen.keys.append(None)
                else:
                    plain = ProducerRecord(topic, value, key, partition, now_ms)
                    batch = None
                    appender.append(state, plain, None, touched)
            except BufferFull:
                return pair
        return None

    def _add_records(
        self,
        topic: str,
        record: ProducerRecord | None,
        pairs: Iterator[Pair],
        touched: dict[ProducerBatch, int],
        partition: int | None,
        timestamp_ms: int | None,
    ) -> ProducerRecord | None:
        """As `_add_pairs`, for interceptors and serializers. Return the record, prepared, that waits.

        It waits for memory, or for its topic, if an interceptor chose another one.
        """
        interceptors = self._serializer.interceptors
        target = Acknowledged(interceptors, None) if interceptors else None
        while True:
            if record is None:
                try:
                    key, value = next(pairs)
                except StopIteration:
                    return None
                given = ProducerRecord(topic, value, key, partition, timestamp_ms)
                record = self._serializer.serialize(given)
            state = self._appender.topics.get(record.topic)
            if state is None:
                return record
            try:
                self._appender.append(state, record, target, touched)
            except BufferFull:
                return record
            record = None

    def _add_watchers(self, touched: dict[ProducerBatch, int], delivery: Delivery) -> None:
        """Add the delivery to the batches that took records since `touched` was cleared, and have them sent."""
        for batch, start in touched.items():
            delivery.add_part()
            batch.watchers.append((start, len(batch.values) - start, delivery))
        self._appender.send_now(touched)
        touched.clear()


def _prepend(first: Pair, rest: Iterable[Pair]) -> Iterable[Pair]:
    yield first
    yield from rest


def _require_pairs(records: Iterable[Pair]) -> None:
    """Raise TypeError for values without keys; of a list, as most are, only the first is looked at."""
    is_other = isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable)
    if isinstance(records, list | tuple) and records:
        is_other = not isinstance(records[0], tuple | list) or len(records[0]) != 2
    if is_other:
        raise TypeError("records are pairs of key and value, as (None, b'value')")
