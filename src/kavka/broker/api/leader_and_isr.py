"""LeaderAndIsr: the controller says who leads and who follows."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


async def handle(
    broker: Broker, context: RequestContext, request: LeaderAndIsrRequest
) -> LeaderAndIsrResponse:
    """Obey, if the epochs allow."""
    return await broker.orders.leader_and_isr(request, context.version)
