"""LeaderAndIsr: the controller says who leads and who follows."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


async def handle(
    broker: Broker, context: RequestContext, request: LeaderAndIsrRequest
) -> LeaderAndIsrResponse:
    """Obey, if the epochs allow. A broker that is alone refuses: CLUSTER_AUTHORIZATION_FAILED."""
    if not broker.takes_orders:
        return LeaderAndIsrResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await broker.orders.leader_and_isr(request, context.version)
