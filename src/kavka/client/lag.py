"""Lag of positions in partitions, in records and in seconds: one function for tools, metrics, console and pipelines.

The lag in records is the distance to the end of the log, as Kafka's tools compute it. The lag in seconds is the age of
the first record that was not read: the broker's index finds the batch that holds the position, one read that is bounded
by that batch returns it, and its record has the time. Where the batch holds none, because it is a transaction's marker
or the cleaner removed them, further reads of bounded size look behind it. Both work with kavka's brokers and with
Apache Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from kavka.client.cluster import Cluster
from kavka.client.leader_requests import Results, send_until_answered
from kavka.client.list_offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_offsets
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.io import Buffer
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from kavka.wire.records.batch import decode_records
from kavka.wire.records.header import HEADER_SIZE, walk_complete

_LAST_WITH_NAMES: Final = 12
"""Later versions of Fetch know topics by their ids alone."""
_ONE_BATCH: Final = 1
"""The bytes of a fetch of one batch: a broker returns the first batch whole, however small the limit is (KIP-74)."""
_SOME_BATCHES: Final = 1 << 16
"""The bytes of a fetch behind a batch that holds no record: some hundreds of markers or of emptied batches."""
_MOST_FETCHES: Final = 16
"""Fetches until the time of the last batch stands for that of the first record, which is behind it."""
_NO_TIMESTAMP: Final = -1


class Lag(NamedTuple):
    """The lag of one position."""

    records: int
    """Offsets between the position and the end of the log, those of markers and removed records too; 0 or above."""
    seconds: float | None
    """Age of the first record at or after the position; 0 without one, None where its timestamp is not known."""
    end_offset: int


async def lags(
    cluster: Cluster,
    positions: Mapping[TopicPartition, int],
    *,
    now_ms: int,
    read_committed: bool = False,
    timeout_ms: int,
    unknown_after: int | None = None,
) -> Results[Lag]:
    """Return the lag of every position, or why there is none.

    `positions` are offsets of the next record to read, as a group commits them; one before the log's start counts as
    the start, since nothing else can be read. `now_ms` is the time to which ages are measured, in milliseconds since
    1970. With `read_committed` the end is the last stable offset. A partition whose leader does not answer has the
    error REQUEST_TIMED_OUT.
    """
    ends = await list_offsets(
        cluster,
        dict.fromkeys(positions, LATEST),
        read_committed=read_committed,
        timeout_ms=timeout_ms,
        unknown_after=unknown_after,
    )
    behind = {
        topic_partition: positions[topic_partition]
        for topic_partition, end in ends.items()
        if isinstance(end, OffsetAndTimestamp) and positions[topic_partition] < end.offset
    }
    behind |= await _after_deletions(cluster, behind, timeout_ms)
    times = await _timestamps(cluster, behind, ends, timeout_ms)
    found: Results[Lag] = {}
    for topic_partition, end in ends.items():
        time = times.get(topic_partition, _NO_TIMESTAMP)
        if isinstance(end, KafkaError):
            found[topic_partition] = end
        elif isinstance(time, KafkaError):
            found[topic_partition] = time
        else:
            position = behind.get(topic_partition, positions[topic_partition])
            found[topic_partition] = lag_of(position, end.offset, time, now_ms)
    return found


def lag_of(position: int, end_offset: int, timestamp_ms: int | None, now_ms: int) -> Lag:
    """Return the lag of a position whose first record has a timestamp, -1 for none; None where no record is left."""
    records = max(end_offset - position, 0)
    if not records or timestamp_ms is None:
        return Lag(records, 0.0, end_offset)
    if timestamp_ms == _NO_TIMESTAMP:
        return Lag(records, None, end_offset)
    # The clocks of producers may be ahead of this one.
    return Lag(records, max(now_ms - timestamp_ms, 0) / 1000, end_offset)


class Looked(NamedTuple):
    """The answer of a fetch about the first record at or after a position."""

    timestamp_ms: int | None
    """Of that record; None where the batches hold none."""
    last_ms: int
    """Of the last batch, -1 without one."""
    next_offset: int
    """The position to go on from."""


def look(records: Buffer, position: int) -> Looked:
    """Return the first record at or after a position: its timestamp.

    `records` are what a fetch at the position returned: whole batches, and perhaps the beginning of another. Markers of
    transactions are no records, and the cleaner may have removed those at and after the position.
    """
    last_ms, next_offset = _NO_TIMESTAMP, position
    for header in walk_complete(records):
        if header.last_offset < position:
            continue
        last_ms, next_offset = header.max_timestamp, header.last_offset + 1
        for record in () if header.is_control else decode_records(records, header):
            if record.offset >= position:
                return Looked(record.timestamp, last_ms, record.offset)
    return Looked(None, last_ms, next_offset)


async def _after_deletions(
    cluster: Cluster, positions: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int]:
    """Return the log's start for each position before it."""
    if not positions:
        return {}
    starts = await list_offsets(
        cluster, dict.fromkeys(positions, EARLIEST), timeout_ms=timeout_ms, unknown_after=1
    )
    return {
        topic_partition: start.offset
        for topic_partition, start in starts.items()
        if isinstance(start, OffsetAndTimestamp) and start.offset > positions[topic_partition]
    }


async def _timestamps(
    cluster: Cluster,
    positions: Mapping[TopicPartition, int],
    ends: Results[OffsetAndTimestamp],
    timeout_ms: int,
) -> dict[TopicPartition, int | KafkaError | None]:
    """Return the timestamps of the first records at positions below the ends of the logs, None where there is none."""

    async def ask(
        leader: BrokerId, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, _Time | KafkaError]:
        peer = await cluster.peer(leader)
        # Each in a request of its own: only the first partition of a fetch is sure to return a batch.
        times = await asyncio.gather(*(one(peer, partition) for partition in partitions))
        return dict(zip(partitions, times, strict=True))

    async def one(peer: Peer, topic_partition: TopicPartition) -> _Time | KafkaError:
        end = ends[topic_partition]
        assert isinstance(end, OffsetAndTimestamp), "positions are below the ends"
        position, last_ms = positions[topic_partition], _NO_TIMESTAMP
        for number in range(_MOST_FETCHES):
            size = _SOME_BATCHES if number else _ONE_BATCH
            request = _fetch(topic_partition, position, size)
            version = peer.version_of(ApiKey.FETCH, _LAST_WITH_NAMES)
            response: FetchResponse = await peer.send(
                request, version, timeout_ms=cluster.request_timeout_ms
            )
            [topic] = response.responses
            [part] = topic.partitions
            looked = _looked_or_refusal(topic_partition, part, position)
            if isinstance(looked, KafkaError):
                return looked
            if looked.timestamp_ms is not None:
                return _Time(looked.timestamp_ms)
            if looked.next_offset >= end.offset:
                return _Time(None)
            if looked.next_offset == position:
                break
            position, last_ms = looked.next_offset, looked.last_ms
        return _Time(last_ms)

    if not positions:
        return {}
    found = await send_until_answered(cluster, positions, ask, timeout_ms=timeout_ms)
    return {
        topic_partition: time if isinstance(time, KafkaError) else time.ms
        for topic_partition, time in found.items()
    }


class _Time(NamedTuple):
    """The timestamp of the first record that was not read; None where no record is left, -1 where it has none."""

    ms: int | None


def _fetch(topic_partition: TopicPartition, position: int, size: int) -> FetchRequest:
    part = FetchRequestPartition(
        partition=topic_partition.partition, fetch_offset=position, partition_max_bytes=size
    )
    topic = FetchRequestTopic(topic=topic_partition.topic, partitions=[part])
    return FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=size, topics=[topic])


def _looked_or_refusal(
    topic_partition: TopicPartition, part: FetchResponsePartition, position: int
) -> Looked | KafkaError:
    code = ErrorCode.of(part.error_code)
    if code is not ErrorCode.NONE:
        return KafkaError(code, f"{topic_partition}: {code.message}")
    records = part.records or b""
    assert not hasattr(records, "file"), "decoding gives bytes"
    return look(records if len(records) >= HEADER_SIZE else b"", position)
