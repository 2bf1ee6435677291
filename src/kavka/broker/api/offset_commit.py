"""OffsetCommit: the offsets up to which a group has read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kavka.broker.metadata.cache import MetadataCache
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.partition_codes import Codes, topics_with_codes
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.group.events import CommitOffsets, OffsetToCommit
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.groups import GroupCoordinators


_AT_ONCE = 500


async def handle(
    metadata: MetadataCache,
    groups: GroupCoordinators,
    context: RequestContext,
    request: OffsetCommitRequest,
) -> OffsetCommitResponse:
    """Commit what is asked for partitions that exist; the others get UNKNOWN_TOPIC_OR_PARTITION.

    A partition that is named repeatedly is answered once, and the last counts. A request with many offsets is stored
    in several batches.
    """
    pace = context.pace
    wanted: dict[tuple[str, int], OffsetToCommit] = {}
    unauthorized: dict[str, ErrorCode] = {}
    for topic in request.topics:
        if pace.is_over():
            await pace.rest()
        if not context.allows(AclOperation.READ, AclResourceType.TOPIC, topic.name):
            unauthorized[topic.name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            continue
        for asked in topic.partitions:
            topic_partition = TopicPartition(topic.name, asked.partition_index)
            if pace.is_over():
                await pace.rest()
            if metadata.partition(topic_partition) is None:
                continue
            wanted[topic_partition] = OffsetToCommit(
                topic.name,
                asked.partition_index,
                asked.committed_offset,
                asked.committed_leader_epoch,
                asked.committed_metadata or "",
                asked.commit_timestamp,
            )
    codes: Codes = {}
    for some in batches(list(wanted.values())):
        codes |= await _commit(groups, request, some, context.connection.attachment.number)
        if pace.is_over(len(some)):
            await pace.rest()
    topics = await topics_with_codes(
        request.topics,
        codes,
        wanted,
        OffsetCommitResponseTopic,
        OffsetCommitResponsePartition,
        pace,
        unauthorized,
    )
    return OffsetCommitResponse(topics=topics)


def batches(offsets: list[OffsetToCommit]) -> Iterator[tuple[OffsetToCommit, ...]]:
    """Yield offsets some at a time: as many as are stored in one iteration of the loop."""
    for at in range(0, len(offsets), _AT_ONCE):
        yield tuple(offsets[at : at + _AT_ONCE])


async def _commit(
    groups: GroupCoordinators,
    request: OffsetCommitRequest,
    wanted: tuple[OffsetToCommit, ...],
    connection: int,
) -> Codes:
    reply = await groups.submit(
        request.group_id,
        lambda token: CommitOffsets(
            token,
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            wanted,
            request.retention_time_ms,
            connection,
        ),
    )
    if isinstance(reply, ErrorCode):
        return {(offset.topic, offset.partition): reply for offset in wanted}
    return {(topic, partition): code for topic, partition, code in reply.partitions}
