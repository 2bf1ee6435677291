"""ControlledShutdown: a broker that wants to stop hands over what it leads."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.control.requests import controlled_shutdown
from kavka.broker.dispatch import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)


async def handle(
    broker: Broker, context: RequestContext, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    """Answer with the partitions that no other broker can lead."""
    if broker.has_own_registry:  # there is no other broker that could ask
        return ControlledShutdownResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await controlled_shutdown(broker.controller, request)
