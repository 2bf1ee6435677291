"""AllocateProducerIds: the controller gives a broker ids for its producers (KIP-730)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.control.controller import Controller
from kavka.broker.control.controller_requests import allocate_producer_ids
from kavka.broker.lazy import Lazy
from kavka.broker.requests.context import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from kavka.broker.control.producer_ids import ProducerIdManager


async def handle(
    has_own_registry: bool,
    controller: Controller,
    producer_ids: Lazy[ProducerIdManager],
    context: RequestContext,
    request: AllocateProducerIdsRequest,
) -> AllocateProducerIdsResponse:
    """Allocate the next block of producer ids."""
    if has_own_registry:  # there is no other broker that could ask
        return AllocateProducerIdsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await allocate_producer_ids(controller, producer_ids.get(), request)
