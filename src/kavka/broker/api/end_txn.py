"""EndTxn: a transaction is committed or aborted (KIP-98, KIP-890)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kavka.broker.coordination.shard_reply import DelayedReply, respond_when_done
from kavka.broker.requests.context import RequestContext
from kavka.core.transaction.events import End, EndReply
from kavka.errors import ErrorCode
from kavka.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators


_FIRST_WITH_PRODUCER_FENCED = 2
_FIRST_WITH_NEXT_EPOCH = 5


def handle(
    transactions: TransactionCoordinators, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | DelayedReply:
    """Ask the transactional id's shard; the response comes when the outcome is stored, before markers are written."""
    version = context.version
    reply = transactions.ask(
        request.transactional_id,
        lambda token: End(
            token,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            2 if version >= _FIRST_WITH_NEXT_EPOCH else 0,
        ),
    )
    result: EndTxnResponse | DelayedReply = respond_when_done(reply, partial(_response, version))
    return result


def _response(version: int, reply: EndReply | ErrorCode) -> EndTxnResponse:
    if isinstance(reply, EndReply) and reply.error_code is ErrorCode.NONE:
        return EndTxnResponse(producer_id=reply.producer_id, producer_epoch=reply.producer_epoch)
    code = reply if isinstance(reply, ErrorCode) else reply.error_code
    if code is ErrorCode.PRODUCER_FENCED and version < _FIRST_WITH_PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=code)
