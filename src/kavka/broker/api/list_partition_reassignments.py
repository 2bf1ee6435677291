"""ListPartitionReassignments: which partitions are on their way (KIP-455)."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.control.reign import NotController
from kavka.broker.dispatch import RequestContext
from kavka.core.controller.events import (
    ReassignmentsListed,
)
from kavka.core.controller.replies import (
    ReassignmentsReply,
)
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponsePartition,
    ListPartitionReassignmentsResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer for the partitions that are asked for, or for all."""
    asked = None
    if request.topics is not None:
        asked = [TopicPartition(t.name, p) for t in request.topics for p in t.partition_indexes]
    try:
        reply: ReassignmentsReply = await broker.controller.ask(
            lambda token: ReassignmentsListed(token, asked)
        )
    except NotController:
        code = ErrorCode.NOT_CONTROLLER
        return ListPartitionReassignmentsResponse(error_code=code, error_message=code.message)
    topics: dict[str, ListPartitionReassignmentsResponseTopic] = {}
    for where, moving in reply.moving.items():
        answer = topics.setdefault(
            where.topic, ListPartitionReassignmentsResponseTopic(name=where.topic)
        )
        answer.partitions.append(
            ListPartitionReassignmentsResponsePartition(
                partition_index=where.partition,
                replicas=list(moving.replicas),
                adding_replicas=list(moving.adding),
                removing_replicas=list(moving.removing),
            )
        )
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE, topics=list(topics.values())
    )
