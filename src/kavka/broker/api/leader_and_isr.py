"""LeaderAndIsr: the controller's request to lead or follow partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.control.control_requests import ControlRequests
from kavka.broker.requests.context import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrRequestPartition,
    LeaderAndIsrResponse,
    LeaderAndIsrResponsePartition,
    LeaderAndIsrResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.control.control_request_check import ControlRequestCheck


_FIRST_BY_ID = 5


async def handle(
    control_requests: ControlRequests,
    control_request_check: ControlRequestCheck,
    context: RequestContext,
    request: LeaderAndIsrRequest,
) -> LeaderAndIsrResponse:
    """Apply the request if it comes from the controller."""
    error = await control_request_check.check(request, is_authorized=context.may_act_in_cluster())
    if error is not ErrorCode.NONE:
        return await _refused(request, context, error)
    return await control_requests.leader_and_isr(request, context.version)


async def _refused(
    request: LeaderAndIsrRequest, context: RequestContext, error: ErrorCode
) -> LeaderAndIsrResponse:
    pace = context.pace
    topics, rows = [], []
    for state in request.ungrouped_partition_states:
        rows.append(_row(state.topic_name, state, error))
        if pace.is_over():
            await pace.rest()
    for topic in request.topic_states:
        name = "" if context.version >= _FIRST_BY_ID else topic.topic_name
        of_topic = [_row(name, state, error) for state in topic.partition_states]
        topics.append(LeaderAndIsrResponseTopic(topic_id=topic.topic_id, partition_errors=of_topic))
        rows += of_topic
        if pace.is_over(1 + len(of_topic)):
            await pace.rest()
    if context.version >= _FIRST_BY_ID:
        return LeaderAndIsrResponse(error_code=error, topics=topics)
    return LeaderAndIsrResponse(error_code=error, partition_errors=rows)


def _row(
    topic: str, state: LeaderAndIsrRequestPartition, error: ErrorCode
) -> LeaderAndIsrResponsePartition:
    return LeaderAndIsrResponsePartition(
        topic_name=topic, partition_index=state.partition_index, error_code=error
    )
