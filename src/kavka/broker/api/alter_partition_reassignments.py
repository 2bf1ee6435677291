"""AlterPartitionReassignments: partitions begin to move, or stop moving (KIP-455)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from kavka.broker.control.controller import Controller
from kavka.broker.control.controller_term import NotControllerError
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Pace
from kavka.core.controller.events import (
    ReassignmentRequested,
)
from kavka.core.controller.replies import (
    PartitionsReply,
    Verdict,
)
from kavka.core.machine import Token
from kavka.errors import ErrorCode, error_message
from kavka.ids import TopicPartition
from kavka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponsePartition,
    AlterPartitionReassignmentsResponseTopic,
)

_AT_ONCE: Final = 2_000
"""Partitions and replicas that the controller decides about in one event."""

Targets = dict[TopicPartition, tuple[int, ...] | None]


async def handle(
    controller: Controller, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin each reassignment or refuse it; ListPartitionReassignments returns the progress."""
    pace = context.pace
    targets: Targets = {}
    for topic in request.topics:
        if pace.is_over():
            await pace.rest()
        for row in topic.partitions:
            replicas = None if row.replicas is None else tuple(row.replicas)
            targets[TopicPartition(topic.name, row.partition_index)] = replicas
            if pace.is_over():
                await pace.rest()
    try:
        verdicts = await _reassign(controller, targets, pace)
    except NotControllerError:
        code = ErrorCode.NOT_CONTROLLER
        return AlterPartitionReassignmentsResponse(error_code=code, error_message=code.message)
    topics: dict[str, AlterPartitionReassignmentsResponseTopic] = {}
    for topic_partition, verdict in verdicts.items():
        result = topics.setdefault(
            topic_partition.topic,
            AlterPartitionReassignmentsResponseTopic(name=topic_partition.topic),
        )
        result.partitions.append(
            AlterPartitionReassignmentsResponsePartition(
                partition_index=topic_partition.partition,
                error_code=verdict.code,
                error_message=verdict.message and error_message(verdict.message),
            )
        )
        if pace.is_over():
            await pace.rest()
    return AlterPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE, responses=list(topics.values())
    )


async def _reassign(
    controller: Controller, targets: Targets, pace: Pace
) -> dict[TopicPartition, Verdict]:
    """Reassign partitions, some at a time. Raise NotControllerError."""
    verdicts: dict[TopicPartition, Verdict] = {}
    for some in _parts(targets):
        reply: PartitionsReply = await controller.submit_and_wait(partial(_event, some))
        verdicts |= reply.verdicts
        if pace.is_over(_AT_ONCE):
            await pace.rest()
    return verdicts


def _parts(targets: Targets) -> Iterator[Targets]:
    """Yield targets in parts of bounded work; where there are none one empty part, to which the controller replies."""
    some: Targets = {}
    weight = 0
    for topic_partition, replicas in targets.items():
        if weight >= _AT_ONCE:
            yield some
            some, weight = {}, 0
        some[topic_partition] = replicas
        weight += 1 + len(replicas or ())
    yield some


def _event(some: Targets, token: Token) -> ReassignmentRequested:
    return ReassignmentRequested(token, some)
