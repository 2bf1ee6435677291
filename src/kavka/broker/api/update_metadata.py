"""UpdateMetadata: the controller says who is alive and who leads what."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def handle(
    broker: Broker, context: RequestContext, request: UpdateMetadataRequest
) -> UpdateMetadataResponse:
    """Carry out the order if it comes from the controller."""
    error = await broker.order_admission.judge(request)
    if error is not ErrorCode.NONE:
        return UpdateMetadataResponse(error_code=error)
    return await broker.orders.update_metadata(request, context.version)
