"""Offsets of logs, and deleting records below one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import IntEnum

from kavka.client.admin.router import Router, refusal
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
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)


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
    )


async def delete_records(
    router: Router, before: Mapping[TopicPartition, int], timeout_ms: int | None
) -> dict[TopicPartition, int | KafkaError]:
    """See `Admin.delete_records`."""
    limit_ms = router.timeout_ms(timeout_ms)
    offsets = {TopicPartition(*at): offset for at, offset in before.items()}
    found: dict[TopicPartition, int | KafkaError] = {}
    router.cluster.add_topics(at.topic for at in offsets)
    attempt = 0
    try:
        async with asyncio.timeout(limit_ms / 1000):
            while open_ := [at for at in offsets if _is_open(found.get(at))]:
                if attempt:
                    await router.cluster.back_off(attempt - 1)
                attempt += 1
                await _delete_once(router, open_, offsets, found, limit_ms)
    except TimeoutError:
        for at in offsets:
            found.setdefault(
                at, KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{at}: no answer in {limit_ms} ms")
            )
    return found


def _is_open(answer: int | KafkaError | None) -> bool:
    return answer is None or (isinstance(answer, KafkaError) and answer.retriable)


async def _delete_once(
    router: Router,
    partitions: list[TopicPartition],
    offsets: Mapping[TopicPartition, int],
    found: dict[TopicPartition, int | KafkaError],
    timeout_ms: int,
) -> None:
    metadata = router.cluster.metadata
    if any(metadata.leader(at) is None for at in partitions):
        await router.cluster.refresh()
    leaders: dict[BrokerId, list[TopicPartition]] = {}
    for at in partitions:
        leader = metadata.leader(at)
        if leader is not None:
            leaders.setdefault(leader, []).append(at)
        else:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            found[at] = KafkaError(code, f"{at}: {code.message}")
    for leader, group in leaders.items():
        topics: dict[str, list[DeleteRecordsRequestPartition]] = {}
        for at in group:
            part = DeleteRecordsRequestPartition(partition_index=at.partition, offset=offsets[at])
            topics.setdefault(at.topic, []).append(part)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsRequestTopic(name=t, partitions=p) for t, p in topics.items()],
            timeout_ms=timeout_ms,
        )
        try:
            peer = await router.cluster.peer(leader)
            answer: DeleteRecordsResponse = await peer.send(
                request, timeout_ms=router.cluster.request_timeout_ms
            )
        except (OSError, CorruptFrame):
            router.cluster.mark_stale()
            continue
        for topic in answer.topics:
            for result in topic.partitions:
                at = TopicPartition(topic.name, result.partition_index)
                error = refusal(result.error_code, None, str(at))
                found[at] = result.low_watermark if error is None else error
                if error is not None and error.retriable:
                    router.cluster.mark_stale()
