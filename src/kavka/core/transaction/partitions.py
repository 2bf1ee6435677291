"""AddPartitionsToTxn and AddOffsetsToTxn: partitions take part in a transaction, or are found to (KIP-98, KIP-890)."""

from __future__ import annotations

from kavka.core.transaction.events import AddPartitions, AddPartitionsReply, Verify, VerifyReply
from kavka.core.transaction.records import StoredTransaction, TransactionState
from kavka.core.transaction.step import Step
from kavka.core.transaction.transaction import Transaction
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.values import replace


def add_partitions(transaction: Transaction | None, event: AddPartitions, step: Step) -> None:
    """Make partitions take part; the first ones begin the transaction."""
    error = _refusal(transaction, event)
    if error is not ErrorCode.NONE:
        step.reply(event.token, AddPartitionsReply(error))
        return
    assert transaction is not None
    value, added = transaction.latest, frozenset(event.partitions)
    assert value is not None
    is_ongoing = value.state is TransactionState.ONGOING
    step.reply(event.token, AddPartitionsReply(ErrorCode.NONE))
    if is_ongoing and added <= value.partitions:
        return
    step.store(
        transaction,
        replace(
            value,
            state=TransactionState.ONGOING,
            partitions=value.partitions | added,
            start_ms=value.start_ms if is_ongoing else step.now_ms,
            last_update_ms=step.now_ms,
            client_transaction_version=event.client_transaction_version,
        ),
    )


def verify(transaction: Transaction | None, event: Verify) -> VerifyReply:
    """Answer a leader whether its partition is part of the transaction.

    Pending changes do not count: a leader checks again when it appends, whether a marker has come in between.
    """
    value = None if transaction is None else transaction.latest
    if not event.transactional_id:
        error = ErrorCode.INVALID_REQUEST
    else:
        error = _refusal_to_verify(value, event.producer_id, event.producer_epoch)
    if value is None or error is not ErrorCode.NONE:
        return refused_verify(event, error)
    found = {True: ErrorCode.NONE, False: ErrorCode.TRANSACTION_ABORTABLE}
    return VerifyReply(tuple((one, found[one in value.partitions]) for one in event.partitions))


def takes_part(
    transaction: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    topic_partition: TopicPartition,
) -> bool:
    """Return whether `verify` would find a partition in the transaction."""
    value = None if transaction is None else transaction.latest
    refusal = _refusal_to_verify(value, producer_id, producer_epoch)
    return value is not None and refusal is ErrorCode.NONE and topic_partition in value.partitions


def _refusal_to_verify(
    value: StoredTransaction | None, producer_id: int, producer_epoch: int
) -> ErrorCode:
    client = None if value is None else value.client
    if value is None or client is None or client.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if client.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if value.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.INVALID_TXN_STATE if value.is_kept else ErrorCode.NONE


def refused_verify(event: Verify, error: ErrorCode) -> VerifyReply:
    """Return the same error for all partitions."""
    return VerifyReply(tuple((one, error) for one in event.partitions))


def _refusal(transaction: Transaction | None, event: AddPartitions) -> ErrorCode:
    if not event.transactional_id:
        return ErrorCode.INVALID_REQUEST
    value = None if transaction is None else transaction.latest
    if transaction is None or value is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if event.client_transaction_version >= 2 and transaction.is_busy:
        # Looked at first: the producer may already have the id and epoch that it will have when this is over.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if value.client.producer_id != event.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if value.client.producer_epoch != event.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.is_busy:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.INVALID_TXN_STATE if value.is_kept else ErrorCode.NONE
