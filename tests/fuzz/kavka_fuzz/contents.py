"""The data in the broker under test, and the check that it is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.peer import Peer
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.wire.records.batch import decode_records
from kavka.wire.records.header import walk_complete
from kavka_fuzz.vocabulary import GROUP, TOPICS, TRANSACTIONAL_ID, Known
from support.produce import batch, produce

KEPT = "kept"
"""A topic that no recipe names."""
FIRST = b"acknowledged before"
LAST = b"written afterwards"
_SETTINGS = {
    "compacted": {"cleanup.policy": "compact"},
    "log-append": {"message.timestamp.type": "LogAppendTime"},
    "recompressed": {"compression.type": "gzip"},
    KEPT: {"retention.ms": "-1"},
}
_PARTITIONS = {"wide": 50}
_NOW_MS = 1_700_000_000_000
_PAUSE_S = 0.01
"""Seconds between two requests, so that the broker has time for what is awaited."""
_FINE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


async def prepare(peer: Peer, known: Known) -> None:
    """Make topics, a group with a committed offset and a transactional id; put a record where no recipe reaches."""
    topics = [
        CreateTopicsRequestTopic(
            name=name,
            num_partitions=_PARTITIONS.get(name, 4),
            replication_factor=1,
            configs=[
                CreateTopicsRequestConfig(name=key, value=value)
                for key, value in _SETTINGS.get(name, {}).items()
            ],
        )
        for name in (*TOPICS, KEPT)
    ]
    response = await _until(
        lambda: peer.send(CreateTopicsRequest(topics=topics, timeout_ms=30_000)),
        # While the controller does not know this broker yet.
        lambda response: response.topics[0].error_code != ErrorCode.INVALID_REPLICATION_FACTOR,
    )
    assert all(topic.error_code in _FINE for topic in response.topics), response
    asked = [MetadataRequestTopic(name=name) for name in (*TOPICS, KEPT)]
    metadata = await peer.send(MetadataRequest(topics=asked))
    known.topic_ids.update({topic.name: topic.topic_id for topic in metadata.topics})
    if response.topics[-1].error_code == ErrorCode.NONE:
        await _produce(peer, FIRST)
    await _commit(peer)
    await _until_found(peer, TRANSACTIONAL_ID, 1)
    await peer.send(
        InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
    )


async def check(peer: Peer) -> None:
    """Produce a record, and insist that all that was acknowledged can be read."""
    await _produce(peer, LAST)
    asked = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        min_bytes=1, max_bytes=1 << 20, topics=[FetchRequestTopic(topic=KEPT, partitions=[asked])]
    )
    found = (await peer.send(request, 11)).responses[0].partitions[0]
    assert found.error_code == 0, found
    content = bytes(found.records)
    values = [r.value for h in walk_complete(content) for r in decode_records(content, h)]
    assert values[0] == FIRST, values[:3]
    assert values[-1] == LAST, values[-3:]


async def _produce(peer: Peer, value: bytes) -> None:
    records = batch(value, timestamp_ms=_NOW_MS)
    response = await produce(peer, TopicPartition(KEPT, 0), records)
    assert response.error_code == 0, response


async def _commit(peer: Peer) -> None:
    await _until_found(peer, GROUP, 0)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    request = OffsetCommitRequest(
        group_id=GROUP, topics=[OffsetCommitRequestTopic(name=TOPICS[0], partitions=[partition])]
    )
    await peer.send(request, 8)


async def _until_found(peer: Peer, key: str, key_type: int) -> None:
    """Have the coordinator's topic made, and wait until it leads."""
    request = FindCoordinatorRequest(key=key, key_type=key_type)
    await _until(lambda: peer.send(request, 3), lambda found: found.error_code == 0)


async def _until(
    send: Callable[[], Awaitable[Any]], is_ready: Callable[[Any], bool], timeout_s: float = 60
) -> Any:
    """Send again until the response is as it is to be, of which no broker sends word; return it. Raise TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while True:
            response = await send()
            if is_ready(response):
                return response
            await asyncio.sleep(_PAUSE_S)
