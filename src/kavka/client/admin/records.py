"""Offsets of logs, and deleting records below one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from kavka.client.admin.router import Router, refusal
from kavka.client.leader_requests import Results, send_until_answered
from kavka.client.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    OffsetAndTimestamp,
    list_offsets,
)
from kavka.client.partitions import by_partition
from kavka.core.topic_partitions import group_by_topic
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)

UNKNOWN_AFTER = 4
"""Rounds until a topic does not exist: with Kafka's back-off about a second, in which all brokers learn of new ones."""


class OffsetSpec(IntEnum):
    """The offset to look up; a timestamp in milliseconds, 0 or above, may be given instead."""

    LATEST = LATEST
    EARLIEST = EARLIEST
    MAX_TIMESTAMP = MAX_TIMESTAMP
    EARLIEST_LOCAL = EARLIEST_LOCAL
    LATEST_TIERED = LATEST_TIERED


async def find_offsets(
    router: Router,
    wanted: Mapping[TopicPartition, int],
    read_committed: bool,
    timeout_ms: int | None,
) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
    """See `Admin.list_offsets`."""
    return await list_offsets(
        router.cluster,
        {one: int(spec) for one, spec in by_partition(wanted).items()},
        read_committed=read_committed,
        timeout_ms=router.timeout_ms(timeout_ms),
        unknown_after=UNKNOWN_AFTER,
    )


async def delete_records(
    router: Router, before: Mapping[TopicPartition, int], timeout_ms: int | None
) -> dict[TopicPartition, int | KafkaError]:
    """See `Admin.delete_records`."""
    limit_ms = router.timeout_ms(timeout_ms)
    offsets = by_partition(before)

    async def ask(leader: BrokerId, partitions: list[TopicPartition]) -> Results[int]:
        topics = group_by_topic(
            (
                topic_partition,
                DeleteRecordsRequestPartition(
                    partition_index=topic_partition.partition, offset=offsets[topic_partition]
                ),
            )
            for topic_partition in partitions
        )
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsRequestTopic(name=t, partitions=p) for t, p in topics.items()],
            timeout_ms=limit_ms,
        )
        peer = await router.cluster.peer(leader)
        response: DeleteRecordsResponse = await peer.send(
            request, timeout_ms=router.cluster.request_timeout_ms
        )
        return {
            (topic_partition := TopicPartition(topic.name, result.partition_index)): refusal(
                result.error_code, None, str(topic_partition)
            )
            or result.low_watermark
            for topic in response.topics
            for result in topic.partitions
        }

    found = await send_until_answered(
        router.cluster, offsets, ask, timeout_ms=limit_ms, unknown_after=UNKNOWN_AFTER
    )
    for topic_partition in offsets:
        late = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"{topic_partition}: no answer in {limit_ms} ms"
        )
        found.setdefault(topic_partition, late)
    return found
