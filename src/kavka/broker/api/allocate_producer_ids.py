"""AllocateProducerIds: the controller gives a broker ids for its producers (KIP-730)."""

from __future__ import annotations

from kavka.broker.control.requests import allocate_producer_ids
from kavka.broker.requests.context import RequestContext
from kavka.broker.services import Services
from kavka.errors import ErrorCode
from kavka.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


async def handle(
    services: Services, context: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Allocate the next block of producer ids."""
    if services.has_own_registry:  # there is no other broker that could ask
        return AllocateProducerIdsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await allocate_producer_ids(services.controller, services.producer_ids, request)
