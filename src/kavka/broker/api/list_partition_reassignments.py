"""ListPartitionReassignments: which partitions are on their way (KIP-455)."""

from __future__ import annotations

from kavka.broker.control.controller import Controller
from kavka.broker.control.controller_term import NotControllerError
from kavka.broker.metadata.cache import MetadataCache
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Pace
from kavka.core.controller.events import (
    ListReassignmentsRequested,
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
    metadata: MetadataCache,
    controller: Controller,
    context: RequestContext,
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse:
    """Answer for the partitions that are asked for, or for all."""
    pace = context.pace
    asked = None
    if request.topics is not None:
        asked = await _known(metadata, request.topics, pace)
    try:
        reply: ReassignmentsReply = await controller.submit_and_wait(
            lambda token: ListReassignmentsRequested(token, asked)
        )
    except NotControllerError:
        code = ErrorCode.NOT_CONTROLLER
        return ListPartitionReassignmentsResponse(error_code=code, error_message=code.message)
    topics: dict[str, ListPartitionReassignmentsResponseTopic] = {}
    for topic_partition, moving in reply.reassignments.items():
        result = topics.setdefault(
            topic_partition.topic,
            ListPartitionReassignmentsResponseTopic(name=topic_partition.topic),
        )
        result.partitions.append(
            ListPartitionReassignmentsResponsePartition(
                partition_index=topic_partition.partition,
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
    metadata: MetadataCache, topics: list[ListPartitionReassignmentsRequestTopic], pace: Pace
) -> list[TopicPartition]:
    """Return the partitions that are asked for and exist, each once: no other is on its way."""
    known: dict[TopicPartition, None] = {}
    for topic in topics:
        if pace.is_over():
            await pace.rest()
        for index in topic.partition_indexes:
            topic_partition = TopicPartition(topic.name, index)
            if metadata.partition(topic_partition) is not None:
                known[topic_partition] = None
            if pace.is_over():
                await pace.rest()
    return list(known)
