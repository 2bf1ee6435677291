"""AddOffsetsToTxn: offsets of a group take part in a transaction (KIP-98)."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.core.transaction.events import AddPartitions, AddPartitionsReply
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_FIRST_WITH_PRODUCER_FENCED = 2


async def handle(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Have the group's partition of `__consumer_offsets` take part; the topic is created if nobody has used it."""
    where = broker.groups.partition_of(request.group_id)
    if where is None:
        await broker.groups.leader_of(request.group_id)
        where = broker.groups.partition_of(request.group_id)
    if where is None:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    code = await _add(broker, request, where)
    if code is ErrorCode.PRODUCER_FENCED and context.version < _FIRST_WITH_PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)


async def _add(broker: Broker, request: AddOffsetsToTxnRequest, where: TopicPartition) -> ErrorCode:
    reply: AddPartitionsReply | ErrorCode = await broker.transactions.ask(
        request.transactional_id,
        lambda token: AddPartitions(
            token,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            (where,),
        ),
    )
    return reply if isinstance(reply, ErrorCode) else reply.error_code
