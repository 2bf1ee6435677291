"""UpdateMetadata: the controller says who is alive and who leads what."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def handle(
    broker: Broker, context: RequestContext, request: UpdateMetadataRequest
) -> UpdateMetadataResponse:
    """Obey, if the epochs allow."""
    return await broker.orders.update_metadata(request, context.version)
