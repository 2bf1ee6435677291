"""Offsets of logs, and deleting records below one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from kavka.client.admin.router import Router, refusal
from kavka.client.leaders import Answers, ask_until_answered
from kavka.client.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    OffsetAndTimestamp,
    list_offsets,
)
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
    """Which offset to look up; a timestamp in milliseconds, 0 or above, may stand in its place."""

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
        {TopicPartition(*at): int(spec) for at, spec in wanted.items()},
        read_committed=read_committed,
        timeout_ms=router.timeout_ms(timeout_ms),
        unknown_after=UNKNOWN_AFTER,
    )


async def delete_records(
    router: Router, before: Mapping[TopicPartition, int], timeout_ms: int | None
) -> dict[TopicPartition, int | KafkaError]:
    """See `Admin.delete_records`."""
    limit_ms = router.timeout_ms(timeout_ms)
    offsets = {TopicPartition(*at): offset for at, offset in before.items()}

    async def ask(leader: BrokerId, partitions: list[TopicPartition]) -> Answers[int]:
        topics: dict[str, list[DeleteRecordsRequestPartition]] = {}
        for at in partitions:
            part = DeleteRecordsRequestPartition(partition_index=at.partition, offset=offsets[at])
            topics.setdefault(at.topic, []).append(part)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsRequestTopic(name=t, partitions=p) for t, p in topics.items()],
            timeout_ms=limit_ms,
        )
        peer = await router.cluster.peer(leader)
        answer: DeleteRecordsResponse = await peer.send(
            request, timeout_ms=router.cluster.request_timeout_ms
        )
        return {
            (at := TopicPartition(topic.name, result.partition_index)): refusal(
                result.error_code, None, str(at)
            )
            or result.low_watermark
            for topic in answer.topics
            for result in topic.partitions
        }

    found = await ask_until_answered(
        router.cluster, offsets, ask, timeout_ms=limit_ms, unknown_after=UNKNOWN_AFTER
    )
    for at in offsets:
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{at}: no answer in {limit_ms} ms")
        found.setdefault(at, late)
    return found
