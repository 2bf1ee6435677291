"""UpdateMetadata: the controller says who is alive and who leads what."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def handle(
    broker: Broker, context: RequestContext, request: UpdateMetadataRequest
) -> UpdateMetadataResponse:
    """Obey, if the epochs allow. A broker that is alone refuses: CLUSTER_AUTHORIZATION_FAILED."""
    if not broker.takes_orders:
        return UpdateMetadataResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await broker.orders.update_metadata(request, context.version)
