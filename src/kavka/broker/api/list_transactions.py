"""ListTransactions: the transactional ids that this broker coordinates (KIP-664, KIP-994)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.transaction.describe import STATE_NAMES
from kavka.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators


def handle(
    transactions: TransactionCoordinators, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """List the transactions that match all filters; an unknown state matches nothing, and is returned as unknown."""
    wanted = dict.fromkeys(request.state_filters)
    code, listed = transactions.list(
        wanted, frozenset(request.producer_id_filters), request.duration_filter
    )
    return ListTransactionsResponse(
        error_code=code,
        unknown_state_filters=[name for name in wanted if name not in STATE_NAMES],
        transaction_states=[
            ListTransactionsResponseTransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state,
            )
            for one in listed
            if context.allows(
                AclOperation.DESCRIBE,
                AclResourceType.TRANSACTIONAL_ID,
                one.transactional_id,
                is_asked=False,
            )
        ],
    )
