"""OffsetCommit: where a group has read to."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.core.group.events import CommitOffsets, OffsetToCommit
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Commit what is asked for partitions that exist; the others get UNKNOWN_TOPIC_OR_PARTITION."""
    codes: dict[tuple[str, int], ErrorCode] = {}
    wanted: list[OffsetToCommit] = []
    for topic in request.topics:
        for asked in topic.partitions:
            where = TopicPartition(topic.name, asked.partition_index)
            if broker.metadata.partition(where) is None:
                codes[where] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            wanted.append(
                OffsetToCommit(
                    topic.name,
                    asked.partition_index,
                    asked.committed_offset,
                    asked.committed_leader_epoch,
                    asked.committed_metadata or "",
                    asked.commit_timestamp,
                )
            )
    if wanted:
        codes.update(await _commit(broker, request, tuple(wanted)))
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=asked.partition_index,
                        error_code=codes[topic.name, asked.partition_index],
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _commit(
    broker: Broker, request: OffsetCommitRequest, wanted: tuple[OffsetToCommit, ...]
) -> dict[tuple[str, int], ErrorCode]:
    reply = await broker.groups.ask(
        request.group_id,
        lambda token: CommitOffsets(
            token,
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            wanted,
            request.retention_time_ms,
        ),
    )
    if isinstance(reply, ErrorCode):
        return {(offset.topic, offset.partition): reply for offset in wanted}
    return {(topic, partition): code for topic, partition, code in reply.partitions}
