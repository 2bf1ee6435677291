"""DescribeTransactions: the state of transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.repetitions import Repetitions
from kavka.broker.services import Services
from kavka.core.transaction.events import DescribedTransaction
from kavka.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopic,
    DescribeTransactionsResponseTransactionState,
)


async def handle(
    services: Services, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Describe each; NOT_COORDINATOR for one with another coordinator."""
    pace = services.slices.pace()
    repetitions = Repetitions("DESCRIBE_TRANSACTIONS")
    shown: dict[str, DescribeTransactionsResponseTransactionState] = {}
    states = []
    for name in request.transactional_ids:
        state = shown.get(name)
        if state is None:
            described = services.transactions.describe(name)
            state = shown[name] = _show(described)
            steps = 1 + len(described.partitions)
        else:
            repetitions.add(state)
            steps = 1
        states.append(state)
        if pace.is_over(steps):
            await pace.rest()
    return DescribeTransactionsResponse(transaction_states=states)


def _show(described: DescribedTransaction) -> DescribeTransactionsResponseTransactionState:
    topics: dict[str, DescribeTransactionsResponseTopic] = {}
    for name, partition in described.partitions:
        topic = topics.setdefault(name, DescribeTransactionsResponseTopic(topic=name))
        topic.partitions.append(partition)
    return DescribeTransactionsResponseTransactionState(
        error_code=described.error_code,
        transactional_id=described.transactional_id,
        transaction_state=described.state,
        transaction_timeout_ms=described.timeout_ms,
        transaction_start_time_ms=described.start_ms,
        producer_id=described.producer_id,
        producer_epoch=described.producer_epoch,
        topics=list(topics.values()),
    )
