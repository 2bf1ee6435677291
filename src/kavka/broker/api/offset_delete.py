"""OffsetDelete: committed offsets of a group go (KIP-496)."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.core.group.events import DeleteOffsets
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    """Ask the group's shard about partitions that exist."""
    asked = [
        TopicPartition(topic.name, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
    ]
    known = tuple(where for where in asked if broker.metadata.partition(where) is not None)
    reply = await broker.groups.ask(
        request.group_id, lambda token: DeleteOffsets(token, request.group_id, known)
    )
    if isinstance(reply, ErrorCode):
        return OffsetDeleteResponse(error_code=reply)
    if reply.error_code is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=reply.error_code)
    codes = {TopicPartition(topic, part): code for topic, part, code in reply.partitions}
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for where in asked:
        topic = topics.setdefault(where.topic, OffsetDeleteResponseTopic(name=where.topic))
        topic.partitions.append(
            OffsetDeleteResponsePartition(
                partition_index=where.partition,
                error_code=codes.get(where, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            )
        )
    return OffsetDeleteResponse(topics=list(topics.values()))
