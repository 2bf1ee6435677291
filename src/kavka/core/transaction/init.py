"""InitProducerId: a producer gets its id and an epoch that fences its former lives (KIP-98, KIP-360, KIP-939)."""

from __future__ import annotations

from kavka.core.transaction.end import abort_with_next_epoch
from kavka.core.transaction.events import InitProducer, InitProducerReply
from kavka.core.transaction.records import (
    NO_PRODUCER_EPOCH,
    Identity,
    StoredTransaction,
    TransactionState,
)
from kavka.core.transaction.settings import NO_TIMEOUT_MS, TransactionSettings
from kavka.core.transaction.step import Step
from kavka.core.transaction.transaction import MAX_EPOCH, Transaction, is_exhausted
from kavka.errors import ErrorCode
from kavka.values import replace


def refusal(event: InitProducer, settings: TransactionSettings) -> ErrorCode:
    """Return what is wrong with the request itself, else NONE."""
    has_id, has_epoch = event.producer_id != -1, event.producer_epoch != NO_PRODUCER_EPOCH
    if not event.transactional_id or has_id is not has_epoch:
        return ErrorCode.INVALID_REQUEST
    if event.enable_2pc and not settings.two_phase_commit_enable:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not event.enable_2pc and not 0 < event.timeout_ms <= settings.max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def init_producer(
    transaction: Transaction, event: InitProducer, step: Step, new_id: int | None = None
) -> None:
    """Reply with the next epoch; `new_id` is a producer id that was allocated on the way."""
    value = transaction.latest
    if transaction.is_busy:
        _refuse(event, ErrorCode.CONCURRENT_TRANSACTIONS, step)
    elif value is None:
        _start_producer(transaction, event, step, new_id, NO_PRODUCER_EPOCH)
    elif not _may_continue(transaction, value, event):
        _refuse(event, ErrorCode.PRODUCER_FENCED, step)
    elif value.state is TransactionState.ONGOING and event.keep_prepared:
        _allocate_new_producer(transaction, value, event, step, new_id)
    elif value.state is TransactionState.ONGOING:
        # No producer gets the epoch of this abort: the producer asks again when the transaction is aborted.
        abort_with_next_epoch(transaction, value, step)
        _refuse(event, ErrorCode.CONCURRENT_TRANSACTIONS, step)
    elif is_exhausted(value.producer_epoch) and not _is_retry(transaction, event):
        last = value.producer_epoch if event.producer_id != -1 else NO_PRODUCER_EPOCH
        _start_producer(transaction, event, step, new_id, last)
    else:
        _next_epoch(transaction, value, event, step)


def _may_continue(transaction: Transaction, value: StoredTransaction, event: InitProducer) -> bool:
    """Return whether the producer is the last one, or names no id and epoch.

    Kafka checks the epoch only when no transaction is open, so that a fenced producer can abort its successor's
    transaction before it gets the error; here it gets the error at once.
    """
    if event.producer_id == -1 or _is_retry(transaction, event):
        return True
    return (event.producer_id, event.producer_epoch) == value.client


def _is_retry(transaction: Transaction, event: InitProducer) -> bool:
    """Return whether the producer asks again for the epoch that it was given, since the response was lost."""
    value = transaction.latest
    if value is None or event.producer_id == -1 or value.state.is_open:
        return False
    if event.producer_epoch != transaction.last_producer_epoch or value.producer_epoch == MAX_EPOCH:
        return False
    if event.producer_id == value.producer_id:
        return True
    return event.producer_id == transaction.previous_producer_id and is_exhausted(
        event.producer_epoch
    )


def _allocate_new_producer(
    transaction: Transaction,
    value: StoredTransaction,
    event: InitProducer,
    step: Step,
    new_id: int | None,
) -> None:
    """Keep the open transaction, and reply with an epoch with which only this producer can end it (KIP-939).

    The producer's timeout counts from now on, but never takes time from what may be decided already.
    """
    client = value.client
    if new_id is not None:
        successor = Identity(new_id, 0)
    elif is_exhausted(client.producer_epoch):
        step.wait_for_producer_id(transaction, event)
        return
    else:
        successor = Identity(client.producer_id, client.producer_epoch + 1)
    kept = replace(
        value,
        next_producer_id=successor.producer_id,
        next_producer_epoch=successor.producer_epoch,
        timeout_ms=max(value.timeout_ms, _timeout_ms(event)),
        last_update_ms=step.now_ms,
        client_transaction_version=2,
    )
    step.store(transaction, kept, NO_PRODUCER_EPOCH)
    ongoing = (value.producer_id, value.producer_epoch)
    step.reply(event.token, InitProducerReply(ErrorCode.NONE, *successor, *ongoing))


def _timeout_ms(event: InitProducer) -> int:
    return NO_TIMEOUT_MS if event.enable_2pc else event.timeout_ms


def _start_producer(
    transaction: Transaction,
    event: InitProducer,
    step: Step,
    new_id: int | None,
    last_producer_epoch: int,
) -> None:
    """Start with an unused producer id: the transactional id is new, or its epochs are exhausted."""
    if new_id is None:
        step.wait_for_producer_id(transaction, event)
        return
    before = transaction.latest
    version = 0 if before is None else before.client_transaction_version
    value = StoredTransaction(
        new_id,
        0,
        _timeout_ms(event),
        TransactionState.EMPTY,
        frozenset(),
        step.now_ms,
        client_transaction_version=version,
    )
    step.store(transaction, value, last_producer_epoch)
    _grant(event, value, step)


def _next_epoch(
    transaction: Transaction, value: StoredTransaction, event: InitProducer, step: Step
) -> None:
    is_retry = _is_retry(transaction, event)
    granted = replace(
        value,
        producer_epoch=value.producer_epoch if is_retry else value.producer_epoch + 1,
        timeout_ms=_timeout_ms(event),
        state=TransactionState.EMPTY,
        start_ms=-1,
        last_update_ms=step.now_ms,
    )
    last = transaction.last_producer_epoch if is_retry else event.producer_epoch
    step.store(transaction, granted, last)
    _grant(event, granted, step)


def _grant(event: InitProducer, value: StoredTransaction, step: Step) -> None:
    reply = InitProducerReply(ErrorCode.NONE, value.producer_id, value.producer_epoch)
    step.reply(event.token, reply)


def _refuse(event: InitProducer, error: ErrorCode, step: Step) -> None:
    step.reply(event.token, InitProducerReply(error))
