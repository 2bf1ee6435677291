"""AllocateProducerIds: the controller gives a broker ids for its producers (KIP-730)."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.control.requests import allocate_producer_ids
from kavka.broker.dispatch import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


async def handle(
    broker: Broker, context: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Give the next block."""
    if broker.has_own_registry:  # there is no other broker that could ask
        return AllocateProducerIdsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await allocate_producer_ids(broker.controller, broker.producer_ids, request)
