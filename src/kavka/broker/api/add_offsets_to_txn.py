"""AddOffsetsToTxn: offsets of a group take part in a transaction (KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.lazy import Lazy
from kavka.broker.requests.context import RequestContext
from kavka.core.transaction.events import AddPartitions, AddPartitionsReply
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators
    from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators


_FIRST_WITH_PRODUCER_FENCED = 2


async def handle(
    groups: Lazy[GroupCoordinators],
    transactions: TransactionCoordinators,
    context: RequestContext,
    request: AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse:
    """Add the group's partition of `__consumer_offsets` to the transaction; the topic is created on first use."""
    topic_partition = groups.get().partition_of(request.group_id)
    if topic_partition is None:
        await groups.get().leader_of(request.group_id)
        topic_partition = groups.get().partition_of(request.group_id)
    if topic_partition is None:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    code = await _add(transactions, request, topic_partition)
    if code is ErrorCode.PRODUCER_FENCED and context.version < _FIRST_WITH_PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)


async def _add(
    transactions: TransactionCoordinators,
    request: AddOffsetsToTxnRequest,
    topic_partition: TopicPartition,
) -> ErrorCode:
    reply: AddPartitionsReply | ErrorCode = await transactions.submit(
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
