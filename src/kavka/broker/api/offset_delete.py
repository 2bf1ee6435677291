"""OffsetDelete: removes committed offsets of a group (KIP-496)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kavka.broker.metadata.cache import MetadataCache
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.partition_codes import Codes, topics_with_codes
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.group.events import DeleteOffsets
from kavka.core.machine import Token
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators


_AT_ONCE = 500


async def handle(
    metadata: MetadataCache,
    groups: GroupCoordinators,
    context: RequestContext,
    request: OffsetDeleteRequest,
) -> OffsetDeleteResponse:
    """Ask the group's shard about partitions that exist."""
    pace = context.pace
    known: dict[TopicPartition, None] = {}
    unauthorized: dict[str, ErrorCode] = {}
    for topic in request.topics:
        if pace.is_over():
            await pace.rest()
        if not context.allows(AclOperation.READ, AclResourceType.TOPIC, topic.name):
            unauthorized[topic.name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            continue
        for asked in topic.partitions:
            topic_partition = TopicPartition(topic.name, asked.partition_index)
            if metadata.partition(topic_partition) is not None:
                known[topic_partition] = None
            if pace.is_over():
                await pace.rest()
    codes = await _delete(groups, context, request.group_id, tuple(known))
    if isinstance(codes, ErrorCode):
        return OffsetDeleteResponse(error_code=codes)
    topics = await topics_with_codes(
        request.topics,
        codes,
        known,
        OffsetDeleteResponseTopic,
        OffsetDeleteResponsePartition,
        pace,
        unauthorized,
    )
    return OffsetDeleteResponse(topics=topics)


async def _delete(
    groups: GroupCoordinators,
    context: RequestContext,
    group_id: str,
    known: tuple[TopicPartition, ...],
) -> Codes | ErrorCode:
    """Delete offsets, some at a time; return what became of each, or what keeps all of them."""
    codes: Codes = {}
    for at in range(0, max(1, len(known)), _AT_ONCE):
        event = partial(_event, group_id, known[at : at + _AT_ONCE])
        reply = await groups.submit(group_id, event)
        if isinstance(reply, ErrorCode):
            return reply
        if at and reply.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            # The group has gone with its last offset: of the others it had none.
            return codes | dict.fromkeys(known[at:], ErrorCode.NONE)
        if reply.error_code is not ErrorCode.NONE:
            code: ErrorCode = reply.error_code
            return code
        codes |= {(topic, partition): code for topic, partition, code in reply.partitions}
        if context.pace.is_over(_AT_ONCE):
            await context.pace.rest()
    return codes


def _event(group_id: str, some: tuple[TopicPartition, ...], token: Token) -> DeleteOffsets:
    return DeleteOffsets(token, group_id, some)
