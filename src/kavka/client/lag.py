"""Lag of positions in partitions, in records and in seconds: one function for tools, metrics, console and pipelines.

The lag in records is the distance to the end of the log, as Kafka's tools compute it. The lag in seconds is the age of
the first record that was not read: the broker's index finds the batch that holds the position, one read that is bounded
by that batch returns it, and its record has the time. Both work with kavka's brokers and with Apache Kafka.
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
_NO_TIMESTAMP: Final = -1


class Lag(NamedTuple):
    """The lag of one position."""

    records: int
    """Offsets between the position and the end of the log, those of markers and removed records too; 0 or above."""
    seconds: float | None
    """Age of the first record at or after the position; 0 when there is none, None when it has no timestamp."""
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
    1970. With `read_committed` the end is the last stable offset. Raise TimeoutError when a leader cannot be reached.
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
    times = await _timestamps(cluster, behind, timeout_ms)
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


def lag_of(position: int, end_offset: int, timestamp_ms: int, now_ms: int) -> Lag:
    """Return the lag of a position whose first record has a timestamp, -1 for none."""
    records = max(end_offset - position, 0)
    if not records:
        return Lag(0, 0.0, end_offset)
    if timestamp_ms == _NO_TIMESTAMP:
        return Lag(records, None, end_offset)
    # The clocks of producers may be ahead of this one.
    return Lag(records, max(now_ms - timestamp_ms, 0) / 1000, end_offset)


def timestamp_at(records: Buffer, position: int) -> int:
    """Return the timestamp of the first record at or after a position, -1 when the batches hold none.

    `records` are what a fetch at the position returned: whole batches, and perhaps the beginning of another.
    """
    for header in walk_complete(records):
        if header.last_offset < position:
            continue
        for record in decode_records(records, header):
            if record.offset >= position:
                return record.timestamp
        # The cleaner removed the records at and after the position: they were written with this batch.
        return header.max_timestamp
    return _NO_TIMESTAMP


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
    cluster: Cluster, positions: Mapping[TopicPartition, int], timeout_ms: int
) -> Results[int]:
    """Return the timestamps of the first records at positions below the ends of the logs."""

    async def ask(leader: BrokerId, partitions: list[TopicPartition]) -> Results[int]:
        peer = await cluster.peer(leader)
        version = peer.version_of(ApiKey.FETCH, _LAST_WITH_NAMES)

        # Each in a request of its own: only the first partition of a fetch is sure to return a batch.
        async def one(topic_partition: TopicPartition) -> Results[int]:
            position = positions[topic_partition]
            request = _one_batch(topic_partition, position)
            response: FetchResponse = await peer.send(
                request, version, timeout_ms=cluster.request_timeout_ms
            )
            [topic] = response.responses
            [part] = topic.partitions
            return {topic_partition: _time_or_refusal(topic_partition, part, position)}

        found: Results[int] = {}
        for results in await asyncio.gather(*map(one, partitions)):
            found.update(results)
        return found

    if not positions:
        return {}
    return await send_until_answered(cluster, positions, ask, timeout_ms=timeout_ms)


def _one_batch(topic_partition: TopicPartition, position: int) -> FetchRequest:
    part = FetchRequestPartition(
        partition=topic_partition.partition, fetch_offset=position, partition_max_bytes=_ONE_BATCH
    )
    topic = FetchRequestTopic(topic=topic_partition.topic, partitions=[part])
    return FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1, topics=[topic])


def _time_or_refusal(
    topic_partition: TopicPartition, part: FetchResponsePartition, position: int
) -> int | KafkaError:
    code = ErrorCode.of(part.error_code)
    if code is not ErrorCode.NONE:
        return KafkaError(code, f"{topic_partition}: {code.message}")
    records = part.records or b""
    assert not hasattr(records, "file"), "decoding gives bytes"
    return timestamp_at(records, position) if len(records) >= HEADER_SIZE else _NO_TIMESTAMP
