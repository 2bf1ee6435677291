"""StopReplica: the controller takes replicas away."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


async def handle(
    broker: Broker, context: RequestContext, request: StopReplicaRequest
) -> StopReplicaResponse:
    """Obey, if the epochs allow."""
    return await broker.orders.stop_replica(request, context.version)
