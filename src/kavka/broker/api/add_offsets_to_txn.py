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
    """Add the group's partition of `__consumer_offsets` to the transaction; the topic is created on first use."""
    topic_partition = broker.groups.partition_of(request.group_id)
    if topic_partition is None:
        await broker.groups.leader_of(request.group_id)
        topic_partition = broker.groups.partition_of(request.group_id)
    if topic_partition is None:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    code = await _add(broker, request, topic_partition)
    if code is ErrorCode.PRODUCER_FENCED and context.version < _FIRST_WITH_PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)


async def _add(
    broker: Broker, request: AddOffsetsToTxnRequest, topic_partition: TopicPartition
) -> ErrorCode:
    reply: AddPartitionsReply | ErrorCode = await broker.transactions.submit(
        request.transactional_id,
        lambda token: AddPartitions(
            token,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            (topic_partition,),
        ),
    )
    return reply if isinstance(reply, ErrorCode) else reply.error_code
