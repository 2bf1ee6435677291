"""Descriptions of transactional ids for administrators (KIP-664, KIP-994)."""

from __future__ import annotations

from collections.abc import Collection

from kavka.core.transaction.events import DescribedTransaction, ListedTransaction
from kavka.core.transaction.records import TransactionState
from kavka.core.transaction.transaction import Transaction
from kavka.errors import ErrorCode

STATE_NAMES = frozenset({*(state.title for state in TransactionState), "Dead", "PrepareEpochFence"})
"""The states that a filter may name: those that are stored, and two that Kafka has only in passing."""


def described(transactional_id: str, transaction: Transaction | None) -> DescribedTransaction:
    """Return the description, or why there is none."""
    if not transactional_id:
        return DescribedTransaction(ErrorCode.INVALID_REQUEST, transactional_id)
    value = None if transaction is None else transaction.latest
    if transaction is None or value is None:
        return DescribedTransaction(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    shown = transaction.partitions_without_marker if value.state.is_prepared else value.partitions
    return DescribedTransaction(
        ErrorCode.NONE,
        transactional_id,
        value.state.title,
        value.timeout_ms,
        value.start_ms,
        value.producer_id,
        value.producer_epoch,
        tuple(sorted(shown)),
    )


def listed(transaction: Transaction) -> ListedTransaction | None:
    """Return a row of the list; None for an id that is not stored yet."""
    value = transaction.latest
    if value is None:
        return None
    return ListedTransaction(transaction.transactional_id, value.producer_id, value.state.title)


def is_wanted(
    transaction: Transaction,
    states: Collection[str],
    producer_ids: Collection[int],
    longer_than_ms: int,
    now_ms: int,
) -> bool:
    """Return whether a transactional id passes the filters, of which an empty or negative one lets all pass."""
    value = transaction.latest
    return value is not None and not (
        (producer_ids and value.producer_id not in producer_ids)
        or (states and value.state.title not in states)
        or (longer_than_ms >= 0 and now_ms - value.start_ms <= longer_than_ms)
    )
