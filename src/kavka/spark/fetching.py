"""Reads a range of offsets of one partition as record batches of Arrow, in a task of Spark.

One fetch is always ahead: the next request is on the wire before a batch is handed to Spark, so the broker works
while Spark does. Offsets may be missing in a range (compaction, markers of transactions, aborted records).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kavka.client.cluster import Channel
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import NO_TOPIC_ID, TopicPartition
from kavka.spark.connection import Connection, require_ok, shared
from kavka.spark.errors import ConnectorError
from kavka.spark.offsets import OffsetRange
from kavka.spark.options import EARLIEST, SourceOptions
from kavka.spark.rows import row_batch
from kavka.spark.topics import list_offsets
from kavka.wire.apis import ApiKey
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from kavka.wire.records import kernel
from kavka.wire.records.compression import decompress
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import HEADER_SIZE, BatchHeader, batch_crc, walk_complete

if TYPE_CHECKING:
    import pyarrow as pa

_FETCH_BYTES: Final = 4 << 20
"""Bytes of a fetch unless `kafka.max.partition.fetch.bytes` says otherwise: some ten thousand rows suit Spark."""
_LARGEST_BODY: Final = 1 << 30
"""Bytes of one decompressed batch."""
_TOPIC_IDS_FROM: Final = 13
"""The version of Fetch that names topics by id."""


def read_range(options: SourceOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range in order.

    Raise ConnectorError when records of it are gone and `failOnDataLoss` is set, KafkaError, OSError and CorruptBatch.
    """
    connection = shared(options.client)
    reader = _RangeReader(connection, options, wanted)
    connection.run(reader.start())
    try:
        while reader.position < wanted.end:
            batch = connection.run(reader.next_batch())
            if batch is not None and batch.num_rows:
                yield batch
    finally:
        reader.cancel()


class _RangeReader:
    """Where a task is in its range. Invariant: `position` only grows, and all before it was handed out or is gone."""

    def __init__(self, connection: Connection, options: SourceOptions, wanted: OffsetRange) -> None:
        self.position = wanted.start
        self._connection = connection
        self._cluster = connection.cluster
        self._options = options
        self._at = TopicPartition(wanted.topic, wanted.partition)
        self._end = wanted.end
        config = connection.config
        given = "max.partition.fetch.bytes" in options.client
        self._fetch_bytes = config.integer("max.partition.fetch.bytes") if given else _FETCH_BYTES
        self._max_bytes = max(config.integer("fetch.max.bytes"), self._fetch_bytes)
        self._max_wait_ms = config.integer("fetch.max.wait.ms")
        self._checks_crc = config.flag("check.crcs")
        self._committed_only = connection.reads_committed
        self._ahead: asyncio.Task[FetchResponsePartition] | None = None

    async def start(self) -> None:
        """Learn where the partition is, and send the first fetch."""
        self._cluster.add_topics([self._at.topic])
        if self._cluster.metadata.leader(self._at) is None:
            await self._cluster.refresh()
        self._fetch_ahead()

    def cancel(self) -> None:
        """Forget the fetch that is under way."""
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None

    def _fetch_ahead(self) -> None:
        self._ahead = self._connection.loop.create_task(
            self._connection.retrying(self._fetch, f"reading {self._at}")
        )

    async def next_batch(self) -> pa.RecordBatch | None:
        """Wait for the fetch under way, send the next one, and return what came; None when there was nothing."""
        assert self._ahead is not None, "start() was not called"
        answer = await self._ahead
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._skip_lost(answer)
            self._fetch_ahead()
            return None
        parts = self._parts(answer)
        start, self.position = self.position, self._after(answer)
        if self.position < self._end:
            self._fetch_ahead()
            await asyncio.sleep(0)  # the request leaves now, not when Spark asks for more
        if not parts:
            return None
        decoded = kernel.decode(parts, start)
        return row_batch(decoded, *self._at, self._end, self._options.include_headers)

    async def _fetch(self) -> FetchResponsePartition:
        """Fetch once at `position`; refusals that a task can do nothing about are raised."""
        leader = self._cluster.metadata.leader(self._at)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{self._at} has no leader")
        peer = await self._cluster.peer(leader, Channel.FETCH)
        topic = self._cluster.metadata.topics[self._at.topic]
        newest = None if topic.topic_id != NO_TOPIC_ID else _TOPIC_IDS_FROM - 1
        version = peer.version_of(ApiKey.FETCH, newest)
        partition = FetchRequestPartition(
            partition=self._at.partition,
            current_leader_epoch=self._cluster.metadata.leader_epoch(self._at),
            fetch_offset=self.position,
            partition_max_bytes=self._fetch_bytes,
        )
        request = FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=int(self._committed_only),
            topics=[
                FetchRequestTopic(
                    topic=self._at.topic, topic_id=topic.topic_id, partitions=[partition]
                )
            ],
        )
        answer: FetchResponse = await peer.send(
            request, version, timeout_ms=self._cluster.request_timeout_ms + self._max_wait_ms
        )
        require_ok(answer.error_code, f"fetch from {self._at}")
        found = answer.responses[0].partitions[0]
        if found.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            require_ok(found.error_code, f"fetch from {self._at}")
        return found

    async def _skip_lost(self, answer: FetchResponsePartition) -> None:
        """Go on behind records that are gone, or raise ConnectorError."""
        if self._options.fail_on_data_loss:
            raise ConnectorError(
                f"Records may be lost: {self._at} no longer has offset {self.position}, of a range up to {self._end}; "
                "set failOnDataLoss to false to go on without them."
            )
        first = (await list_offsets(self._connection, {self._at: EARLIEST}))[self._at]
        self.position = min(first, self._end) if first > self.position else self._end

    def _after(self, answer: FetchResponsePartition) -> int:
        """Return the offset behind the whole batches of an answer."""
        headers = walk_complete(_bytes(answer))
        if headers:
            return max(headers[-1].last_offset + 1, self.position)
        visible = answer.last_stable_offset if self._committed_only else answer.high_watermark
        if answer.records:
            raise ConnectorError(
                f"{self._at} has a batch at offset {self.position} that is larger than "
                f"{self._fetch_bytes} bytes: raise kafka.max.partition.fetch.bytes."
            )
        if 0 <= visible < self._end and self._options.fail_on_data_loss:
            raise ConnectorError(
                f"Records may be lost: {self._at} ends at offset {visible}, before {self._end}; "
                "set failOnDataLoss to false to go on without them."
            )
        return self._end if 0 <= visible < self._end else self.position

    def _parts(self, answer: FetchResponsePartition) -> list[tuple[Any, ...]]:
        """Return the bodies of an answer as the kernel takes them, without markers and aborted records."""
        data = _bytes(answer)
        aborted = _Aborted(answer) if self._committed_only else None
        parts = []
        for header in walk_complete(data):
            if aborted is not None and aborted.hides(header, data):
                continue
            if (
                header.is_control
                or header.last_offset < self.position
                or header.base_offset >= self._end
            ):
                continue
            if self._checks_crc and batch_crc(data, header) != header.crc:
                raise CorruptBatch(
                    f"{self._at} offset {header.base_offset}: wrong CRC", header.position
                )
            body = decompress(
                header.compression,
                memoryview(data)[header.position + HEADER_SIZE : header.end],
                _LARGEST_BODY,
            )
            kind = int(header.timestamp_type)
            parts.append((
                body, 0, len(body), header.record_count, header.base_offset, header.base_timestamp, kind,
                header.max_timestamp,
            ))  # fmt: skip
        return parts


def _bytes(answer: FetchResponsePartition) -> bytes | bytearray | memoryview:
    """Return the batches of an answer; the last one may be cut."""
    data = answer.records
    if data is None:
        return b""
    assert isinstance(data, bytes | bytearray | memoryview), "what was received lies in memory"
    return data


class _Aborted:
    """Which batches belong to aborted transactions (KIP-98): from a first offset to the marker of the producer."""

    def __init__(self, answer: FetchResponsePartition) -> None:
        self._waiting = [
            (one.first_offset, one.producer_id) for one in answer.aborted_transactions or ()
        ]
        heapq.heapify(self._waiting)
        self._open: set[int] = set()

    def hides(self, header: BatchHeader, data: Any) -> bool:
        """Tell whether the batch must not be seen; batches must come in order."""
        while self._waiting and self._waiting[0][0] <= header.last_offset:
            self._open.add(heapq.heappop(self._waiting)[1])
        if not header.is_transactional:
            return False
        if header.is_control:
            self._open.discard(header.producer_id)
            return True
        return header.producer_id in self._open
