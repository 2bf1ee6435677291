"""AlterPartitionReassignments: partitions begin to move, or stop moving (KIP-455)."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.control.reign import NotController
from kavka.broker.dispatch import RequestContext
from kavka.core.controller.events import (
    ReassignmentAsked,
)
from kavka.core.controller.replies import (
    PartitionsReply,
)
from kavka.errors import ErrorCode, error_message
from kavka.ids import TopicPartition
from kavka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponsePartition,
    AlterPartitionReassignmentsResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin each move or say why not; how far it is ListPartitionReassignments tells."""
    targets = {
        TopicPartition(topic.name, row.partition_index): (
            None if row.replicas is None else tuple(row.replicas)
        )
        for topic in request.topics
        for row in topic.partitions
    }
    try:
        reply: PartitionsReply = await broker.controller.ask(
            lambda token: ReassignmentAsked(token, targets)
        )
    except NotController:
        code = ErrorCode.NOT_CONTROLLER
        return AlterPartitionReassignmentsResponse(error_code=code, error_message=code.message)
    topics: dict[str, AlterPartitionReassignmentsResponseTopic] = {}
    for where, verdict in reply.verdicts.items():
        answer = topics.setdefault(
            where.topic, AlterPartitionReassignmentsResponseTopic(name=where.topic)
        )
        answer.partitions.append(
            AlterPartitionReassignmentsResponsePartition(
                partition_index=where.partition,
                error_code=verdict.code,
                error_message=verdict.message and error_message(verdict.message),
            )
        )
    return AlterPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE, responses=list(topics.values())
    )
