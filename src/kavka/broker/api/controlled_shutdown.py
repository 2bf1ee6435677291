"""ControlledShutdown: a broker that wants to stop hands over what it leads."""

from __future__ import annotations

from kavka.broker.control.requests import controlled_shutdown
from kavka.broker.requests.context import RequestContext
from kavka.broker.services import Services
from kavka.errors import ErrorCode
from kavka.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)


async def handle(
    services: Services, context: RequestContext, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    """Answer with the partitions that no other broker can lead."""
    if services.has_own_registry:  # there is no other broker that could ask
        return ControlledShutdownResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await controlled_shutdown(services.controller, request)
