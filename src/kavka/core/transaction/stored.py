"""A shard's records as the keys and values of `__transaction_state`, and back."""

from __future__ import annotations

from kavka.core.transaction.records import (
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
    TransactionLogPartition,
    TransactionLogValue,
    decode_transaction_key,
    decode_transaction_value,
    encode_transaction_key,
    encode_transaction_value,
)
from kavka.wire.versioned import version_of

CONFIRMATION = encode_transaction_key(TransactionLogKey(transactional_id=""))
"""A key that no transaction has: its tombstone says nothing (decision 013)."""


def to_bytes(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Return key and value as they go into the log; None is a tombstone."""
    key = encode_transaction_key(TransactionLogKey(transactional_id=record.transactional_id))
    return key, None if record.value is None else encode_transaction_value(_value(record.value))


def from_bytes(key: Buffer, value: Buffer | None) -> TransactionRecord | None:
    """Return the record; None for a kind of key that is not known. Raise CorruptFrame."""
    if version_of("record key", key) not in schema_of(TransactionLogKey).versions:
        return None
    decoded = decode_transaction_key(key)
    stored = None if value is None else _stored(decode_transaction_value(value))
    return TransactionRecord(decoded.transactional_id, stored)


def _value(value: StoredTransaction) -> TransactionLogValue:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(value.partitions):
        by_topic.setdefault(topic, []).append(partition)
    rows = [TransactionLogPartition(topic=t, partition_ids=ids) for t, ids in by_topic.items()]
    return TransactionLogValue(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        transaction_timeout_ms=value.timeout_ms,
        transaction_status=value.state,
        transaction_partitions=None if value.state is TransactionState.EMPTY else rows,
        transaction_last_update_timestamp_ms=value.last_update_ms,
        transaction_start_timestamp_ms=value.start_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_transaction_version=value.client_transaction_version,
        next_producer_epoch=value.next_producer_epoch,
    )


def _stored(value: TransactionLogValue) -> StoredTransaction:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        # PrepareEpochFence and Dead are states of Kafka's memory, never of its log.
        name, number = "TransactionLogValue", value.transaction_status
        raise CorruptFrame(name, -1, 0, f"no state has the number {number}") from None
    return StoredTransaction(
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        frozenset(
            TopicPartition(row.topic, partition)
            for row in value.transaction_partitions or ()
            for partition in row.partition_ids
        ),
        value.transaction_last_update_timestamp_ms,
        value.transaction_start_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
        value.next_producer_epoch,
    )
