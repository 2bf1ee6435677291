"""A shard's records as the keys and values of `__transaction_state`, and back."""

from __future__ import annotations

from functools import lru_cache

from kavka.core.topic_partitions import partitions_by_topic
from kavka.core.transaction.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    StoredTransaction,
    TransactionRecord,
    TransactionState,
)
from kavka.ids import TopicPartition
from kavka.io import Buffer
from kavka.wire.codec import CorruptFrame
from kavka.wire.schema import schema_of
from kavka.wire.stored.transactions import (
    TransactionLogKey,
    TransactionLogValue,
    decode_transaction_key,
    decode_transaction_value,
    transaction_key,
    transaction_partitions,
    transaction_value,
)
from kavka.wire.versioned import version_of

CONFIRMATION = transaction_key("")
"""A key that no transaction has: its tombstone says nothing (decision 013)."""
_FEW = 16
"""Partitions of a transaction whose bytes are kept for its next records."""
_STATES = frozenset(TransactionState)
_CLIENT_VERSIONS = range(3)
"""Levels of the feature `transaction.version`."""


def to_bytes(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Return key and value as they go into the log; None is a tombstone."""
    key = transaction_key(record.transactional_id)
    return key, None if record.value is None else _value(record.value)


def from_bytes(key: Buffer, value: Buffer | None) -> TransactionRecord | None:
    """Return the record; None for a kind of key that is not known.

    Raise CorruptFrame, also for a value that contradicts itself, which no coordinator has written.
    """
    if version_of("record key", key) not in schema_of(TransactionLogKey).versions:
        return None
    decoded = decode_transaction_key(key)
    stored = None if value is None else _stored(decode_transaction_value(value))
    return TransactionRecord(decoded.transactional_id, stored)


def _value(value: StoredTransaction) -> bytes:
    partitions = None if value.state is TransactionState.EMPTY else value.partitions
    encode = _partitions if partitions is None or len(partitions) <= _FEW else _many_partitions
    return transaction_value(value, encode(value.client_transaction_version > 0, partitions))


def _many_partitions(is_flexible: bool, partitions: frozenset[TopicPartition] | None) -> bytes:
    topics = None if partitions is None else partitions_by_topic(sorted(partitions))
    return transaction_partitions(topics, is_flexible=is_flexible)


# The outcome repeats the partitions, and a producer's next transaction often has the same.
_partitions = lru_cache(256)(_many_partitions)


def _stored(value: TransactionLogValue) -> StoredTransaction:
    contradiction = _contradiction(value)
    if contradiction is not None:
        raise CorruptFrame("TransactionLogValue", -1, 0, contradiction)
    state = TransactionState(value.transaction_status)
    # A transaction that is not open has no partitions and no next epoch, whatever the record names.
    rows = value.transaction_partitions or () if state.is_open else ()
    return StoredTransaction(
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        frozenset(
            TopicPartition(row.topic, partition) for row in rows for partition in row.partition_ids
        ),
        value.transaction_last_update_timestamp_ms,
        value.transaction_start_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id if state.is_open else NO_PRODUCER_ID,
        value.client_transaction_version,
        value.next_producer_epoch if state.is_open else NO_PRODUCER_EPOCH,
    )


def _contradiction(value: TransactionLogValue) -> str | None:
    """Return what no transaction can be made of; None when one can."""
    if value.transaction_status not in _STATES:
        # PrepareEpochFence and Dead are states of Kafka's memory, never of its log.
        return f"no state has the number {value.transaction_status}"
    if value.producer_id < 0 or value.producer_epoch < 0:
        return f"no producer has id {value.producer_id} and epoch {value.producer_epoch}"
    if min(value.previous_producer_id, value.next_producer_id, value.next_producer_epoch) < -1:
        return "a producer id or epoch is below -1"
    if value.client_transaction_version not in _CLIENT_VERSIONS:
        return f"no client has the transaction version {value.client_transaction_version}"
    if value.next_producer_id != NO_PRODUCER_ID and value.client_transaction_version == 0:
        return "a next producer id without a transaction version that has one"
    partitions = (one for row in value.transaction_partitions or () for one in row.partition_ids)
    if any(partition < 0 for partition in partitions):
        return "a partition has a negative number"
    return None
