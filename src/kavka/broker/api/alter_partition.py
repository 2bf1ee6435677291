"""AlterPartition: leaders propose in-sync sets to the controller."""

from __future__ import annotations

from kavka.broker.control.controller import Controller
from kavka.broker.control.controller_requests import alter_partition
from kavka.broker.requests.context import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


async def handle(
    has_own_registry: bool,
    controller: Controller,
    context: RequestContext,
    request: AlterPartitionRequest,
) -> AlterPartitionResponse:
    """Judge each proposal by itself."""
    if has_own_registry:  # there is no other broker that could ask
        return AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await alter_partition(controller, request, context.version)
