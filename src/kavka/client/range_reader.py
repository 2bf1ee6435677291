"""Reads a range of offsets of one partition as columns, for a query of Spark and for SQL over topics.

One fetch is always ahead: the next request is on the wire before columns are handed on, so the broker works while
the query does. Offsets may be missing in a range (compaction, markers of transactions, aborted records).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from kavka.client.cluster import Channel, Cluster
from kavka.client.config import Config
from kavka.client.consumer.batches import CorruptRecordError, cut_before
from kavka.client.consumer.fetch.isolation_filter import filter_by_isolation
from kavka.client.consumer.subscription import PartitionState
from kavka.client.leader_requests import require_ok, retrying
from kavka.client.list_offsets import EARLIEST, LATEST, look_up_offsets
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import NO_TOPIC_ID, TopicPartition
from kavka.io import Buffer
from kavka.values import replace
from kavka.wire.apis import ApiKey
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from kavka.wire.records.columns import Columns, decode_columns
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import HEADER_SIZE, read_header, walk_complete

T = TypeVar("T")

_FETCH_BYTES: Final = 4 << 20
"""Bytes of a fetch unless `max.partition.fetch.bytes` says otherwise: some ten thousand rows suit queries."""
_FETCH_GROWTH: Final = 4
"""Factor by which a fetch is larger than the one before it, up to its full size."""
_SHORT_RESPONSES: Final = 6
"""Number of times that a leader must answer an end before the range's, over two seconds with Kafka's back-off."""
_TOPIC_IDS_FROM: Final = 13
"""The version of Fetch that names topics by id."""


OnLoss = Callable[[str], None]
"""Takes a sentence, without its full stop, about records that may be lost; what it raises ends the read."""


class RangeReader:
    """A position in a range. Invariant: `position` only grows, and all before it was returned or is gone."""

    def __init__(
        self,
        cluster: Cluster,
        config: Config,
        topic_partition: TopicPartition,
        offsets: range,
        on_loss: OnLoss,
        first_fetch_bytes: int | None = None,
    ) -> None:
        """Take a consumer's settings and what to read; fetches grow from `first_fetch_bytes` on where it is given."""
        self.position = offsets.start
        self._cluster = cluster
        self._topic_partition = topic_partition
        self._end = offsets.stop
        self._on_loss = on_loss
        given = "max.partition.fetch.bytes" in config.given
        self._full_fetch = config.integer("max.partition.fetch.bytes") if given else _FETCH_BYTES
        self._fetch_bytes = min(first_fetch_bytes or self._full_fetch, self._full_fetch)
        self._max_bytes = max(config.integer("fetch.max.bytes"), self._full_fetch)
        self._timeout_ms = config.integer("default.api.timeout.ms")
        self._max_wait_ms = config.integer("fetch.max.wait.ms")
        self._checks_crc = config.flag("check.crcs")
        self._committed_only = config.text("isolation.level") == "read_committed"
        self._ahead: asyncio.Task[FetchResponsePartition] | None = None

    async def start(self) -> None:
        """Find the partition's leader, and send the first fetch."""
        self._cluster.add_topics([self._topic_partition.topic])
        if self._cluster.metadata.leader(self._topic_partition) is None:
            await self._retrying(self._cluster.refresh, f"finding {self._topic_partition}")
        self._fetch_ahead()

    def cancel(self) -> None:
        """Forget the fetch that is in progress; in the thread of the loop."""
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None

    def _fetch_ahead(self) -> None:
        self._ahead = asyncio.get_running_loop().create_task(
            self._retrying(self._fetch, f"reading {self._topic_partition}")
        )

    async def _retrying(self, attempt: Callable[[], Awaitable[T]], what: str) -> T:
        return await retrying(self._cluster, attempt, what, self._timeout_ms)

    @property
    def is_done(self) -> bool:
        """Return whether all of the range was returned or is gone."""
        return self.position >= self._end

    async def next_columns(self) -> Columns | None:
        """Wait for the fetch in progress, send the next one, and return what came; None when there was nothing.

        Raise what `on_loss` raises, CorruptRecordError for a batch that cannot be read, KafkaError, OSError.
        """
        assert self._ahead is not None, "start() was not called"
        result = await self._ahead
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._skip_lost(result)
            self._fetch_ahead()
            return None
        columns = self._columns(result)
        if columns.next_offset == self.position:
            self.position = await self._after_nothing(result)
        else:
            self.position = columns.next_offset
        if self.position < self._end:
            self._fetch_ahead()
            await asyncio.sleep(0)  # the request leaves now, not when more is asked for
        elif self.position > self._end:
            columns = cut_before(columns, self._end)
        self._fetch_bytes = min(self._fetch_bytes * _FETCH_GROWTH, self._full_fetch)
        return columns if columns.count else None

    async def _fetch(self) -> FetchResponsePartition:
        """Fetch once at `position`; refusals that a reader can do nothing about are raised."""
        leader = self._cluster.metadata.leader(self._topic_partition)
        if leader is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{self._topic_partition} has no leader"
            )
        peer = await self._cluster.peer(leader, Channel.FETCH)
        topic = self._cluster.metadata.topics[self._topic_partition.topic]
        newest = None if topic.topic_id != NO_TOPIC_ID else _TOPIC_IDS_FROM - 1
        version = peer.version_of(ApiKey.FETCH, newest)
        partition = FetchRequestPartition(
            partition=self._topic_partition.partition,
            current_leader_epoch=self._cluster.metadata.leader_epoch(self._topic_partition),
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
                    topic=self._topic_partition.topic,
                    topic_id=topic.topic_id,
                    partitions=[partition],
                )
            ],
        )
        response: FetchResponse = await peer.send(
            request, version, timeout_ms=self._cluster.request_timeout_ms + self._max_wait_ms
        )
        require_ok(response.error_code, f"fetch from {self._topic_partition}")
        found = response.responses[0].partitions[0]
        if found.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            require_ok(found.error_code, f"fetch from {self._topic_partition}")
        return found

    async def _skip_lost(self, result: FetchResponsePartition) -> None:
        """Continue behind records that are gone, unless that raises."""
        self._on_loss(
            f"{self._topic_partition} no longer has offset {self.position}, of a range up to {self._end}"
        )
        first = await self._offset_at(EARLIEST)
        self.position = min(first, self._end) if first > self.position else self._end

    async def _offset_at(self, special: int) -> int:
        found = await look_up_offsets(
            self._cluster,
            {self._topic_partition: special},
            read_committed=self._committed_only,
            timeout_ms=self._timeout_ms,
        )
        return found[self._topic_partition].offset

    def _columns(self, result: FetchResponsePartition) -> Columns:
        """Decode a response from `position` on, without markers and aborted records.

        What is corrupt behind the end of the range is another range's. Raise CorruptRecordError for a batch in it.
        """
        data = _bytes(result)
        try:
            return self._decode(data, result)
        except CorruptBatch as corrupt:
            place, offset, what = self._place_of(data, corrupt)
            if offset < self._end:
                raise CorruptRecordError(self._topic_partition, offset, what) from corrupt
            return replace(self._decode(data[:place], result), next_offset=self._end)

    def _decode(self, data: Buffer, result: FetchResponsePartition) -> Columns:
        hidden: set[int] = set()
        if self._committed_only and result.aborted_transactions:
            state = PartitionState(self._topic_partition, fetch_position=self.position)
            chunk = filter_by_isolation(
                state, data, result.aborted_transactions, read_committed=True
            )
            shown = {header.position for header in chunk.headers} if chunk is not None else set()
            hidden = {header.position for header in walk_complete(data)} - shown
        return decode_columns(
            data,
            from_offset=self.position,
            skip=lambda header: header.position in hidden,
            check_crcs=self._checks_crc,
        )

    def _place_of(self, data: Buffer, corrupt: CorruptBatch) -> tuple[int, int, str]:
        """Return position and offset of the first corrupt batch of a response, and what is wrong with it."""
        place, offset = 0, self.position
        try:
            while len(data) - place >= HEADER_SIZE:
                header = read_header(data, place)
                if header.end > len(data):
                    break
                if header.last_offset >= self.position:
                    offset = max(header.base_offset, offset)
                    decode_columns(data, place, header.end, check_crcs=self._checks_crc)
                    offset = header.last_offset + 1
                place = header.end
        except CorruptBatch as found:
            return place, offset, found.what
        return 0, self.position, corrupt.what  # together they are too large

    async def _after_nothing(self, result: FetchResponsePartition) -> int:
        """Return where to continue after a response without a whole batch: here, or at the end if the log is shorter.

        A replica that has just become leader learns by and by how far the records are committed, so that its high
        watermark may be below the end of a range that the leader before it had shown. Only an end of the log that
        leaders repeat is believed.
        """
        visible = result.last_stable_offset if self._committed_only else result.high_watermark
        if not 0 <= visible < self._end:
            return self.position
        for attempt in range(_SHORT_RESPONSES):
            visible = await self._offset_at(LATEST)
            if visible >= self._end:
                return self.position
            await self._cluster.back_off(attempt)
            with suppress(OSError, KafkaError):
                await self._cluster.refresh()
        self._on_loss(f"{self._topic_partition} ends at offset {visible}, before {self._end}")
        return self._end if visible <= self.position else self.position


def _bytes(result: FetchResponsePartition) -> bytes | bytearray | memoryview:
    """Return the batches of a response; the last one may be cut."""
    data = result.records
    if data is None:
        return b""
    assert isinstance(data, bytes | bytearray | memoryview), "what was received lies in memory"
    return data
