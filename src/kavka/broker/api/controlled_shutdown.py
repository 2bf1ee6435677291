"""ControlledShutdown: a broker that wants to stop hands over what it leads."""

from __future__ import annotations

from kavka.broker.control.controller import Controller
from kavka.broker.control.controller_requests import controlled_shutdown
from kavka.broker.requests.context import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)


async def handle(
    has_own_registry: bool,
    controller: Controller,
    context: RequestContext,
    request: ControlledShutdownRequest,
) -> ControlledShutdownResponse:
    """Answer with the partitions that no other broker can lead."""
    if has_own_registry:  # there is no other broker that could ask
        return ControlledShutdownResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await controlled_shutdown(controller, request)
