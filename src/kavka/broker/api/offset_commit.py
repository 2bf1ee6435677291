"""OffsetCommit: the offsets up to which a group has read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kavka.broker.metadata.cache import MetadataCache
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.partition_codes import Codes, topics_with_codes
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.group.events import CommitOffsets, OffsetToCommit
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators
    from kavka.wire.messages.txn_offset_commit import (
        TxnOffsetCommitRequestTopic,
        TxnOffsetCommitResponseTopic,
    )


_AT_ONCE = 500
T = TypeVar("T", OffsetCommitResponseTopic, "TxnOffsetCommitResponseTopic")


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
    topics = await commit_offsets(
        metadata,
        context,
        request.topics,
        partial(_commit, groups, request, context.connection.attachment.number),
        OffsetCommitResponseTopic,
        OffsetCommitResponsePartition,
    )
    return OffsetCommitResponse(topics=topics)


async def commit_offsets(
    metadata: MetadataCache,
    context: RequestContext,
    topics: Sequence[OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic],
    commit: Callable[[tuple[OffsetToCommit, ...]], Awaitable[Codes]],
    make_topic: Callable[..., T],
    make_partition: Callable[..., object],
) -> list[T]:
    """Commit what is asked for partitions that exist and that the client may read; return the response's topics.

    `commit` gets as many offsets as are stored in one iteration of the loop.
    """
    pace = context.pace
    wanted: dict[tuple[str, int], OffsetToCommit] = {}
    unauthorized: dict[str, ErrorCode] = {}
    for topic in topics:
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
                asked.commit_timestamp if isinstance(asked, OffsetCommitRequestPartition) else -1,
            )
    codes: Codes = {}
    offsets = list(wanted.values())
    for at in range(0, len(offsets), _AT_ONCE):
        some = tuple(offsets[at : at + _AT_ONCE])
        codes |= await commit(some)
        if pace.is_over(len(some)):
            await pace.rest()
    return await topics_with_codes(
        topics, codes, wanted, make_topic, make_partition, pace, unauthorized
    )


async def _commit(
    groups: GroupCoordinators,
    request: OffsetCommitRequest,
    connection: int,
    wanted: tuple[OffsetToCommit, ...],
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
