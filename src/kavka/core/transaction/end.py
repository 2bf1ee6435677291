"""EndTxn, and the ends that the coordinator itself brings about (KIP-98, KIP-890).

The response to a client of version 0 with the right id and epoch, while no change is pending:

                    commit                    abort
    EMPTY           INVALID_TXN_STATE         INVALID_TXN_STATE
    ONGOING         prepares, NONE            prepares, NONE
    PREPARE_*       CONCURRENT_TRANSACTIONS   CONCURRENT_TRANSACTIONS
    COMPLETE_COMMIT NONE: it asks again       INVALID_TXN_STATE
    COMPLETE_ABORT  INVALID_TXN_STATE         NONE: it asks again

A client of version 2 gets a new epoch by each end, so state and epoch together show which transaction it means: with
the epoch before the present one it repeats its request, with the present one it means another transaction, which it may
abort without having begun it:

                    commit                    abort                    with the epoch before: commit, abort
    EMPTY           INVALID_TXN_STATE         prepares, NONE           PRODUCER_FENCED
    ONGOING         prepares, NONE            prepares, NONE           PRODUCER_FENCED
    PREPARE_*       CONCURRENT_TRANSACTIONS   CONCURRENT_TRANSACTIONS  CONCURRENT_TRANSACTIONS
    COMPLETE_COMMIT INVALID_TXN_STATE         prepares, NONE           NONE, INVALID_TXN_STATE
    COMPLETE_ABORT  INVALID_TXN_STATE         prepares, NONE           PRODUCER_FENCED, NONE

The last line's PRODUCER_FENCED is of a commit that comes after the coordinator's own abort (KAFKA-20785): the producer
gets the response of version 0, and can be replaced. INVALID_TXN_STATE, as up to Apache Kafka 4.1, is fatal.
"""

from __future__ import annotations

from kavka.core.transaction.events import End, EndReply
from kavka.core.transaction.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Identity,
    StoredTransaction,
    TransactionState,
)
from kavka.core.transaction.step import Step
from kavka.core.transaction.transaction import (
    MAX_EPOCH,
    Transaction,
    is_exhausted,
    with_producer,
)
from kavka.errors import ErrorCode
from kavka.values import replace


def end(transaction: Transaction | None, event: End, step: Step, new_id: int | None = None) -> None:
    """Decide the outcome; `new_id` is a producer id that was asked for on the way."""
    if not event.transactional_id:
        _refuse(event, ErrorCode.INVALID_REQUEST, step)
    elif transaction is None or (value := transaction.latest) is None:
        _refuse(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, step)
    elif event.client_transaction_version < 2:
        _end(transaction, value, event, step)
    else:
        _end_with_new_epoch(transaction, value, event, step, new_id)


def abort_with_next_epoch(transaction: Transaction, value: StoredTransaction, step: Step) -> None:
    """Abort an open transaction without its producer, which is fenced by the same record."""
    assert value.state is TransactionState.ONGOING
    client = value.client
    prepared = with_producer(
        value,
        Identity(client.producer_id, min(client.producer_epoch + 1, MAX_EPOCH)),
        state=TransactionState.PREPARE_ABORT,
        last_update_ms=step.now_ms,
    )
    # A client of version 2 may take the epoch, as it takes one after an end of its own; another is fenced permanently.
    may_go_on = value.client_transaction_version >= 2
    step.store(transaction, prepared, client.producer_epoch if may_go_on else NO_PRODUCER_EPOCH)
    step.send_markers(transaction.transactional_id, prepared)


def complete(transaction: Transaction, step: Step) -> None:
    """Write the end of a transaction after all partitions have their marker."""
    if transaction.owes_completion:
        step.store_completion(transaction)
    elif transaction.is_complete:
        assert transaction.value is not None
        step.store(transaction, _completed(transaction.value, step.now_ms))


def owe_completion(transaction: Transaction, now_ms: int) -> bool:
    """Note that the end is to be written, now that all partitions have their marker; return whether that can wait.

    It cannot where a new producer id follows: what comes next builds on the record with both ids.
    """
    value = transaction.value
    assert value is not None
    if value.next_producer_id != NO_PRODUCER_ID:
        return False
    transaction.completion = _completed(value, now_ms)
    return True


def _completed(value: StoredTransaction, now_ms: int) -> StoredTransaction:
    is_commit, successor = value.state is TransactionState.PREPARE_COMMIT, value.successor
    return replace(
        value,
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        last_update_ms=now_ms,
        producer_id=successor.producer_id,
        producer_epoch=successor.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
    )


def _end(transaction: Transaction, value: StoredTransaction, event: End, step: Step) -> None:
    client = value.client
    if client.producer_id != event.producer_id:
        _refuse(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, step)
    elif client.producer_epoch != event.producer_epoch:
        _refuse(event, ErrorCode.PRODUCER_FENCED, step)
    elif transaction.is_busy:
        _refuse(event, ErrorCode.CONCURRENT_TRANSACTIONS, step)
    elif value.is_kept:
        # Its end gives a new epoch, which this form of the response cannot say.
        _refuse(event, ErrorCode.UNSUPPORTED_VERSION, step)
    elif value.state is TransactionState.ONGOING:
        prepared = replace(
            value,
            state=_prepare(event.committed),
            last_update_ms=step.now_ms,
            client_transaction_version=event.client_transaction_version,  # its markers raise no epoch
        )
        step.store(transaction, prepared)
        step.reply(event.token, EndReply(ErrorCode.NONE))
        step.send_markers(transaction.transactional_id, prepared)
    else:
        _refuse(event, _error_of_retry(value, event.committed), step)


def _end_with_new_epoch(
    transaction: Transaction, value: StoredTransaction, event: End, step: Step, new_id: int | None
) -> None:
    is_retry, client = _is_retry(transaction, value, event), value.client
    if transaction.is_busy:
        # Looked at first: the id and epoch that the producer has may be those that it will have when this is over.
        _refuse(event, ErrorCode.CONCURRENT_TRANSACTIONS, step)
    elif is_retry:
        error = _error_of_retry(value, event.committed)
        if event.committed and value.state is TransactionState.COMPLETE_ABORT:
            # A producer repeats its own request, a commit: another one aborted it.
            error = ErrorCode.PRODUCER_FENCED
        _reply(event, error, value.producer_id, value.producer_epoch, step)
    elif client.producer_id != event.producer_id and not _had_last_epoch(transaction, value, event):
        _refuse(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, step)
    elif client != (event.producer_id, event.producer_epoch):
        _refuse(event, ErrorCode.PRODUCER_FENCED, step)
    elif event.committed and value.state is not TransactionState.ONGOING:
        _refuse(event, ErrorCode.INVALID_TXN_STATE, step)
    elif is_exhausted(client.producer_epoch) and new_id is None:
        step.wait_for_producer_id(transaction, event)
    else:
        _prepare_with_new_epoch(transaction, value, event, step, new_id)


def _prepare_with_new_epoch(
    transaction: Transaction, value: StoredTransaction, event: End, step: Step, new_id: int | None
) -> None:
    is_ongoing, client = value.state is TransactionState.ONGOING, value.client
    following = Identity(client.producer_id, client.producer_epoch + 1)
    successor = following if new_id is None else Identity(new_id, 0)
    prepared = with_producer(
        value,
        successor,
        state=_prepare(event.committed),
        start_ms=value.start_ms if is_ongoing else step.now_ms,
        last_update_ms=step.now_ms,
        client_transaction_version=event.client_transaction_version,
    )
    step.store(transaction, prepared, client.producer_epoch)
    _reply(event, ErrorCode.NONE, *successor, step)
    step.send_markers(transaction.transactional_id, prepared)


def _is_retry(transaction: Transaction, value: StoredTransaction, event: End) -> bool:
    """Return whether a client of version 2 asks again for what is done: it has not learned of its new epoch."""
    if value.state not in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        return False
    if value.client_transaction_version < 2:
        # The transaction was another producer's, which took the present epoch before it began.
        return False
    if value.producer_id == event.producer_id:
        # The last epoch is not given away: the coordinator took it to fence this producer, by an abort of its own.
        return value.producer_epoch == event.producer_epoch + 1 < MAX_EPOCH
    return _had_last_epoch(transaction, value, event)


def _had_last_epoch(transaction: Transaction, value: StoredTransaction, event: End) -> bool:
    """Return whether the client has the id's previous epoch, which no producer has continued."""
    return (
        event.producer_id == transaction.previous_producer_id
        and event.producer_epoch == MAX_EPOCH - 1
        and value.producer_epoch == 0
    )


def _error_of_retry(value: StoredTransaction, is_commit: bool) -> ErrorCode:
    """Return the error for a retried EndTxn when the transaction is not open."""
    done = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    return ErrorCode.NONE if value.state is done else ErrorCode.INVALID_TXN_STATE


def _prepare(is_commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT


def _reply(event: End, error: ErrorCode, producer_id: int, producer_epoch: int, step: Step) -> None:
    if error is ErrorCode.NONE:
        step.reply(event.token, EndReply(error, producer_id, producer_epoch))
    else:
        _refuse(event, error, step)


def _refuse(event: End, error: ErrorCode, step: Step) -> None:
    step.reply(event.token, EndReply(error))
