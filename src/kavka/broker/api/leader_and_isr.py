"""LeaderAndIsr: the controller says who leads and who follows."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrRequestPartition,
    LeaderAndIsrResponse,
    LeaderAndIsrResponsePartition,
    LeaderAndIsrResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: LeaderAndIsrRequest
) -> LeaderAndIsrResponse:
    """Carry out the order if it comes from the controller."""
    error = await broker.order_admission.judge(request)
    if error is not ErrorCode.NONE:
        return _refused(request, context.version, error)
    return await broker.orders.leader_and_isr(request, context.version)


def _refused(request: LeaderAndIsrRequest, version: int, error: ErrorCode) -> LeaderAndIsrResponse:
    if version >= 5:
        topics = [
            LeaderAndIsrResponseTopic(
                topic_id=topic.topic_id,
                partition_errors=[_row("", state, error) for state in topic.partition_states],
            )
            for topic in request.topic_states
        ]
        return LeaderAndIsrResponse(error_code=error, topics=topics)
    ungrouped = request.ungrouped_partition_states
    rows = [_row(state.topic_name, state, error) for state in ungrouped]
    for named in request.topic_states:
        rows += [_row(named.topic_name, state, error) for state in named.partition_states]
    return LeaderAndIsrResponse(error_code=error, partition_errors=rows)


def _row(
    topic: str, state: LeaderAndIsrRequestPartition, error: ErrorCode
) -> LeaderAndIsrResponsePartition:
    return LeaderAndIsrResponsePartition(
        topic_name=topic, partition_index=state.partition_index, error_code=error
    )
