"""ListPartitionReassignments: which partitions are on their way (KIP-455)."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.control.reign import NotController
from kavka.broker.dispatch import RequestContext
from kavka.broker.pace import Pace
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
    ListPartitionReassignmentsRequestTopic,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponsePartition,
    ListPartitionReassignmentsResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer for the partitions that are asked for, or for all."""
    pace = context.pace
    asked = None
    if request.topics is not None:
        asked = await _known(broker, request.topics, pace)
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
        if pace.is_over():
            await pace.rest()
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE, topics=list(topics.values())
    )


async def _known(
    broker: Broker, topics: list[ListPartitionReassignmentsRequestTopic], pace: Pace
) -> list[TopicPartition]:
    """Return the partitions that are asked for and exist, each once: no other is on its way."""
    known: dict[TopicPartition, None] = {}
    for topic in topics:
        if pace.is_over():
            await pace.rest()
        for index in topic.partition_indexes:
            where = TopicPartition(topic.name, index)
            if broker.metadata.partition(where) is not None:
                known[where] = None
            if pace.is_over():
                await pace.rest()
    return list(known)
