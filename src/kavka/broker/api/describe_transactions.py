"""DescribeTransactions: the state of transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Slices
from kavka.broker.requests.repetitions import Repetitions
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.topic_partitions import partitions_by_topic
from kavka.core.transaction.events import DescribedTransaction
from kavka.errors import ErrorCode
from kavka.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopic,
    DescribeTransactionsResponseTransactionState,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators


async def handle(
    slices: Slices,
    transactions: TransactionCoordinators,
    context: RequestContext,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse:
    """Describe each; NOT_COORDINATOR for one with another coordinator."""
    pace = slices.pace()
    repetitions = Repetitions("DESCRIBE_TRANSACTIONS")
    shown: dict[str, DescribeTransactionsResponseTransactionState] = {}
    states = []
    for name in request.transactional_ids:
        state = shown.get(name)
        if state is None:
            state = shown[name] = _describe(transactions, context, name)
            steps = 1 + sum(len(topic.partitions) for topic in state.topics)
        else:
            repetitions.add(state)
            steps = 1
        states.append(state)
        if pace.is_over(steps):
            await pace.rest()
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(
    transactions: TransactionCoordinators, context: RequestContext, name: str
) -> DescribeTransactionsResponseTransactionState:
    """Describe a transaction with the topics that the client may describe."""
    describe = AclOperation.DESCRIBE
    if not context.allows(describe, AclResourceType.TRANSACTIONAL_ID, name):
        return DescribeTransactionsResponseTransactionState(
            error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id=name
        )
    state = _show(transactions.describe(name))
    if context.authorizer is not None:
        state.topics = [
            topic
            for topic in state.topics
            if context.allows(describe, AclResourceType.TOPIC, topic.topic, is_asked=False)
        ]
    return state


def _show(described: DescribedTransaction) -> DescribeTransactionsResponseTransactionState:
    return DescribeTransactionsResponseTransactionState(
        error_code=described.error_code,
        transactional_id=described.transactional_id,
        transaction_state=described.state,
        transaction_timeout_ms=described.timeout_ms,
        transaction_start_time_ms=described.start_ms,
        producer_id=described.producer_id,
        producer_epoch=described.producer_epoch,
        topics=[
            DescribeTransactionsResponseTopic(topic=name, partitions=numbers)
            for name, numbers in partitions_by_topic(described.partitions).items()
        ],
    )
