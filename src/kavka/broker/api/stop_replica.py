"""StopReplica: the controller takes replicas away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.control.control_request_messages import stopped_replicas
from kavka.broker.control.control_requests import ControlRequests
from kavka.broker.requests.context import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.stop_replica import (
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaResponsePartition,
)

if TYPE_CHECKING:
    from kavka.broker.control.control_request_check import ControlRequestCheck


async def handle(
    control_requests: ControlRequests,
    control_request_check: ControlRequestCheck,
    context: RequestContext,
    request: StopReplicaRequest,
) -> StopReplicaResponse:
    """Apply the request if it comes from the controller."""
    error = await control_request_check.check(request, is_authorized=context.may_act_in_cluster())
    if error is not ErrorCode.NONE:
        return await _refused(request, context, error)
    return await control_requests.stop_replica(request, context.version)


async def _refused(
    request: StopReplicaRequest, context: RequestContext, error: ErrorCode
) -> StopReplicaResponse:
    rows = []
    for topic_partition, _epoch, _delete in stopped_replicas(request, context.version):
        rows.append(
            StopReplicaResponsePartition(
                topic_name=topic_partition.topic,
                partition_index=topic_partition.partition,
                error_code=error,
            )
        )
        if context.pace.is_over():
            await context.pace.rest()
    return StopReplicaResponse(error_code=error, partition_errors=rows)
