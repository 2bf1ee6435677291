"""StopReplica: the controller takes replicas away."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.broker.orders import stopped_replicas
from kavka.errors import ErrorCode
from kavka.wire.messages.stop_replica import (
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaResponsePartition,
)


async def handle(
    broker: Broker, context: RequestContext, request: StopReplicaRequest
) -> StopReplicaResponse:
    """Carry out the order if it comes from the controller."""
    error = await broker.order_admission.judge(request)
    if error is not ErrorCode.NONE:
        return await _refused(request, context, error)
    return await broker.orders.stop_replica(request, context.version)


async def _refused(
    request: StopReplicaRequest, context: RequestContext, error: ErrorCode
) -> StopReplicaResponse:
    rows = []
    for where, _epoch, _delete in stopped_replicas(request, context.version):
        rows.append(
            StopReplicaResponsePartition(
                topic_name=where.topic, partition_index=where.partition, error_code=error
            )
        )
        if context.pace.is_over():
            await context.pace.rest()
    return StopReplicaResponse(error_code=error, partition_errors=rows)
