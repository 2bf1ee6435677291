"""A batch that is being collected, sent and answered. Pure.

The states of a batch: *open* (records are added while there are `free_bytes`), *closed* (drained at least once;
it may go back into the queue for another try), *done* (`complete` or `fail` was called; a later answer means nothing).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kavka.client.producer.encoding import encode_records
from kavka.client.producer.record_future import RecordFuture, RecordMetadata
from kavka.client.producer.rejected_batch import RejectedBatch
from kavka.ids import NO_PRODUCER_ID, Offset, ProducerEpoch, ProducerId, TopicPartition
from kavka.io import Buffer
from kavka.wire.records.compression import Compression

log = logging.getLogger(__name__)

HeaderPairs = Sequence[tuple[str, bytes | None]]
"""Headers of a record, in order; names may repeat."""
Headers = HeaderPairs | Mapping[str, bytes | None]
"""Headers as the methods of a producer take them."""

NO_SEQUENCE = -1
NO_PRODUCER_EPOCH = ProducerEpoch(-1)
SEQUENCE_MASK = 0x7FFFFFFF
RECORD_OVERHEAD = 14
"""Bytes of a record beside key and value (lengths, deltas, attributes): an upper bound for values below 8 KiB."""


class RecordRange(NamedTuple):
    """The partition and offsets of consecutive records. `base_offset` is -1 with acks=0."""

    topic: str
    partition: int
    base_offset: int
    record_count: int


Callback = Callable[[RecordMetadata | None, Exception | None], None]
"""Called once per record with one of the two."""


def call(callback: Callback, metadata: RecordMetadata | None, error: Exception | None) -> None:
    """Call a user's callback. What it raises is logged: it must not keep others from learning of their records.

    For the same reason what ends the program is raised later, in a callback of the loop of its own.
    """
    try:
        callback(metadata, error)
    except (SystemExit, KeyboardInterrupt) as ending:
        asyncio.get_running_loop().call_soon(_raise, ending)
    except BaseException:  # such as asyncio.CancelledError
        log.exception("callback of a record failed")


def _raise(error: BaseException) -> None:
    raise error


class Acknowledged:
    """Calls the interceptors, then the user's callback."""

    __slots__ = ("_callback", "_interceptors")

    def __init__(self, interceptors: list[Any], callback: Callback | None) -> None:
        """Take them."""
        self._interceptors = interceptors
        self._callback = callback

    @property
    def has_callback(self) -> bool:
        """Return whether a user's callback learns of a failure, beside the interceptors."""
        return self._callback is not None

    def __call__(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Call them."""
        for interceptor in self._interceptors:
            call(interceptor.on_acknowledgement, metadata, error)
        if self._callback is not None:
            call(self._callback, metadata, error)


class Delivery:
    """The outcome of records that were given in one call: one future for all of them.

    Invariant: the future is resolved when `_pending` reaches 0, or with the first failure.
    """

    __slots__ = ("_pending", "_ranges", "future")

    def __init__(self, future: asyncio.Future[list[RecordRange]]) -> None:
        """Start with one pending part, the call itself; `seal` takes it back."""
        self.future = future
        self._pending = 1
        self._ranges: list[RecordRange] = []

    def add_part(self) -> None:
        """Wait for one more part."""
        self._pending += 1

    def part_written(self, written: RecordRange) -> None:
        """Count a part that arrived."""
        self._ranges.append(written)
        self.close()

    def close(self) -> None:
        """Count down; the last part resolves the future with the ranges in order of partition and offset."""
        self._pending -= 1
        if self._pending == 0 and not self.future.done():
            self.future.set_result(sorted(self._ranges))

    def fail(self, error: Exception) -> None:
        """Fail the whole call with the first error."""
        self._pending -= 1
        if not self.future.done():
            self.future.set_exception(error)


Target = RecordFuture | Callback | Delivery


DeliveryWatcher = tuple[int, int, Callback | Delivery]
"""The first record, the count and the target of an outcome; a plain tuple, because there may be one for each record."""


@dataclass(eq=False, slots=True)
class ProducerBatch:
    """Records of one partition, and how far they are. Two batches are never equal."""

    topic_partition: TopicPartition
    created_ms: int
    free_bytes: int
    """Reserved bytes that are free; below 0 once the batch is closed, so that one comparison is enough for both."""
    reserved: int
    """Bytes of `buffer.memory` that the batch holds."""
    keys: list[bytes | None] = field(default_factory=list)
    """Empty as long as no record has a key, else as long as `values`."""
    values: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: dict[int, bytes] = field(default_factory=dict)
    """By index of the record, as the kernel packs them; most have none."""
    columns: Any = None
    """Records as columns instead of the three lists (`send_table`)."""
    watchers: list[DeliveryWatcher] = field(default_factory=list)
    futures: list[RecordFuture] = field(default_factory=list)
    """Of single records, in their order."""
    attempts: int = 0
    retry_at_ms: int = 0
    leader_epoch: int = -1
    """The leader epoch that was known when it was sent last: with a newer one, a repeat need not wait (KIP-951)."""
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    ordinal: int = 0
    """Number of the batch within its partition; retries keep it."""
    sequence_was_reset: bool = False
    may_linger: bool = True
    """False once a call waits that gave many records at once: waiting for more of them is no use to it."""
    is_closed: bool = False
    is_queued: bool = False
    is_in_flight: bool = False
    is_done: bool = False
    encoded_bytes: int = 0
    """Bytes of the batch as it was sent last."""
    limit: int = 0
    """Bytes that the batch may come to; it reserves them step by step."""
    number: int = 0
    """Counts the batches of a producer; the halves of a split one inherit it."""

    @property
    def count(self) -> int:
        """Return the number of records."""
        return len(self.columns) if self.columns is not None else len(self.values)

    @property
    def size(self) -> int:
        """About how many bytes the records take, without compression."""
        return self.reserved if self.is_closed else self.reserved - self.free_bytes

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record."""
        return (self.base_sequence + self.count - 1) & SEQUENCE_MASK

    def close(self) -> None:
        """Take no more records and give back the memory that was not used."""
        if not self.is_closed:
            self.reserved -= self.free_bytes
            self.is_closed = True
            self.free_bytes = -1

    def encode(
        self, compression: Compression, level: int | None, transactional: bool = False
    ) -> Buffer:
        """Return the record batch as it goes to the broker."""
        if self.columns is not None:
            encoded: Buffer = self.columns.encode(
                compression,
                level,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                transactional,
            )
            return encoded
        return encode_records(
            self.values,
            self.timestamps,
            self.keys or None,
            self.headers,
            compression=compression,
            level=level,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            transactional=transactional,
        )

    def complete(
        self, base_offset: Offset, log_append_time_ms: int, called: list[RecordFuture]
    ) -> None:
        """Report that the records were written from `base_offset` on (-1 when that is not known).

        Futures whose first callback the caller has to call are added to `called`.
        """
        assert not self.is_done
        self.is_done = True
        topic, partition = self.topic_partition
        offset, timestamp_ms = -1, log_append_time_ms
        timestamps = self.timestamps if log_append_time_ms < 0 and self.columns is None else None
        make: Any = tuple.__new__  # half the time of a NamedTuple's constructor
        for start, count, target in self.watchers:
            if base_offset >= 0:
                offset = base_offset + start
            if isinstance(target, Delivery):
                target.part_written(RecordRange(topic, partition, offset, count))
                continue
            if timestamps is not None:
                timestamp_ms = timestamps[start]
            elif log_append_time_ms < 0:
                timestamp_ms = self.timestamp_of(start)
            call(target, make(RecordMetadata, (topic, partition, offset, timestamp_ms)), None)
        if self.futures:
            self._complete_futures(base_offset, log_append_time_ms, called)

    def _complete_futures(
        self, base_offset: Offset, log_append_time_ms: int, called: list[RecordFuture]
    ) -> None:
        topic, partition = self.topic_partition
        offset, timestamp_ms, timestamps = -1, log_append_time_ms, self.timestamps
        make: Any = tuple.__new__
        set_result: Any = asyncio.Future.set_result  # it leaves the first callback where it is
        for future in self.futures:
            if future.done():
                continue
            index = future.index
            if base_offset >= 0:
                offset = base_offset + index
            if log_append_time_ms < 0:
                timestamp_ms = timestamps[index]
            if future.callback is not None:
                called.append(future)
            set_result(future, make(RecordMetadata, (topic, partition, offset, timestamp_ms)))

    def fail(self, error: Exception) -> None:
        """Report that the records were not written, as far as is known; a RejectedBatch has an error for each."""
        assert not self.is_done
        self.is_done = True
        reason = error
        for start, count, target in self.watchers:
            if isinstance(error, RejectedBatch):
                reason = error.of_records(start, count)
            if isinstance(target, Delivery):
                target.fail(reason)
            else:
                call(target, None, reason)
        for future in self.futures:
            if not future.done():
                if isinstance(error, RejectedBatch):
                    reason = error.of_records(future.index, 1)
                future.set_exception(reason)

    @property
    def has_watchers(self) -> bool:
        """Return whether the failure of every record is reported to a user, beside interceptors."""
        watched = len(self.futures)
        for _, count, target in self.watchers:
            if not isinstance(target, Acknowledged) or target.has_callback:
                watched += count
        return watched >= self.count

    def timestamp_of(self, index: int) -> int:
        """Return the timestamp of a record."""
        return (
            int(self.columns.timestamp(index))
            if self.columns is not None
            else self.timestamps[index]
        )

    def split(self) -> list[ProducerBatch]:
        """Return the two halves of a batch that a broker found too large; sequences stay with their records."""
        assert self.count > 1
        middle = self.count // 2
        return [self._part(0, middle), self._part(middle, self.count)]

    def _part(self, start: int, end: int) -> ProducerBatch:
        part = ProducerBatch(
            self.topic_partition, self.created_ms, -1, self.reserved * (end - start) // self.count
        )
        if self.columns is not None:
            part.columns = self.columns.slice(start, end)
        else:
            part.keys = self.keys[start:end]
            part.values = self.values[start:end]
            part.timestamps = self.timestamps[start:end]
            part.headers = {i - start: h for i, h in self.headers.items() if start <= i < end}
        part.is_closed = True
        part.number = self.number
        part.attempts = self.attempts
        part.leader_epoch = self.leader_epoch
        part.producer_id, part.producer_epoch = self.producer_id, self.producer_epoch
        part.sequence_was_reset = self.sequence_was_reset
        if self.base_sequence != NO_SEQUENCE:
            part.base_sequence = (self.base_sequence + start) & SEQUENCE_MASK
            part.ordinal = self.ordinal
        part.futures = [future for future in self.futures if start <= future.index < end]
        for future in part.futures:
            future.index -= start
        for first, count, target in self.watchers:
            low, high = max(first, start), min(first + count, end)
            if low < high:
                part.watchers.append((low - start, high - low, target))
                if isinstance(target, Delivery) and first < start:
                    target.add_part()  # this call's records now lie in both halves
        return part
