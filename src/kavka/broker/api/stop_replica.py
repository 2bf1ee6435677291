"""StopReplica: the controller takes replicas away."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


async def handle(
    broker: Broker, context: RequestContext, request: StopReplicaRequest
) -> StopReplicaResponse:
    """Obey, if the epochs allow. A broker that is alone refuses: CLUSTER_AUTHORIZATION_FAILED."""
    if not broker.takes_orders:
        return StopReplicaResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await broker.orders.stop_replica(request, context.version)
