"""Records of one replica, leader or follower: read as Kafka's debugging consumer, replica -2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kavka.client.admin.router import Router, refusal
from kavka.client.partitions import by_partition
from kavka.core.topic_partitions import group_by_topic
from kavka.errors import KafkaError
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

DEBUGGING_REPLICA = -2
_LAST_WITH_NAMES = 12
"""Later versions know topics by their ids alone."""


class ReplicaRecords(NamedTuple):
    """Records of one replica: whole batches and perhaps the beginning of another."""

    high_watermark: int
    records: Buffer


async def fetch_replicas(
    router: Router,
    broker_id: BrokerId,
    offsets: Mapping[TopicPartition, int],
    max_bytes: int,
    max_wait_ms: int,
    timeout_ms: int | None,
) -> dict[TopicPartition, ReplicaRecords | KafkaError]:
    """See `Admin.fetch_replicas`."""
    topics = group_by_topic(
        (
            topic_partition,
            FetchRequestPartition(
                partition=topic_partition.partition,
                fetch_offset=offset,
                partition_max_bytes=max_bytes,
            ),
        )
        for topic_partition, offset in by_partition(offsets).items()
    )
    request = FetchRequest(
        replica_id=DEBUGGING_REPLICA,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        topics=[FetchRequestTopic(topic=name, partitions=parts) for name, parts in topics.items()],
    )

    def build(peer: Peer) -> tuple[FetchRequest, int]:
        return request, peer.version_of(ApiKey.FETCH, _LAST_WITH_NAMES)

    response: FetchResponse = await router.broker(
        broker_id, build, lambda response: (response.error_code,), timeout_ms
    )
    whole = refusal(response.error_code)
    if whole is not None:
        raise whole
    return {
        TopicPartition(topic.topic, part.partition_index): refusal(part.error_code) or _found(part)
        for topic in response.responses
        for part in topic.partitions
    }


def _found(part: FetchResponsePartition) -> ReplicaRecords:
    records = part.records or b""
    assert not hasattr(records, "file"), "decoding gives bytes"
    return ReplicaRecords(part.high_watermark, records)
