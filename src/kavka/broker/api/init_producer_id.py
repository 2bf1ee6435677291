"""InitProducerId: an id and an epoch for an idempotent producer (KIP-98, KIP-360)."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def handle(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Give a new producer id with epoch 0.

    INVALID_REQUEST for an empty transactional id; NOT_COORDINATOR for others: no broker coordinates transactions yet.
    """
    if request.transactional_id == "":
        return InitProducerIdResponse(
            error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1
        )
    if request.transactional_id is not None:
        return InitProducerIdResponse(
            error_code=ErrorCode.NOT_COORDINATOR, producer_id=-1, producer_epoch=-1
        )
    try:
        producer_id = await broker.producer_ids.next()
    except ConnectionError:
        return InitProducerIdResponse(
            error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_id=-1, producer_epoch=-1
        )
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
