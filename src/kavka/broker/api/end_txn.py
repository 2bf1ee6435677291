"""EndTxn: a transaction is committed or aborted (KIP-98, KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.requests.context import RequestContext
from kavka.core.transaction.events import End, EndReply
from kavka.errors import ErrorCode
from kavka.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators


_FIRST_WITH_PRODUCER_FENCED = 2
_FIRST_WITH_NEXT_EPOCH = 5


async def handle(
    transactions: TransactionCoordinators, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse:
    """Ask the transactional id's shard; the response comes when the outcome is stored, before markers are written."""
    reply: EndReply | ErrorCode = await transactions.submit(
        request.transactional_id,
        lambda token: End(
            token,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            2 if context.version >= _FIRST_WITH_NEXT_EPOCH else 0,
        ),
    )
    if isinstance(reply, EndReply) and reply.error_code is ErrorCode.NONE:
        return EndTxnResponse(producer_id=reply.producer_id, producer_epoch=reply.producer_epoch)
    code = reply if isinstance(reply, ErrorCode) else reply.error_code
    if code is ErrorCode.PRODUCER_FENCED and context.version < _FIRST_WITH_PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=code)
