"""Records of `__transaction_state`: how far the transaction of each transactional id has come (KIP-98)."""

from __future__ import annotations

from typing import Final

from kavka.io import Buffer
from kavka.wire.schema import field, i8, i16, i32, i64, message, string, struct
from kavka.wire.versioned import decode_versioned, encode_versioned

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""By number, in Kafka's words."""


@message(versions="0")
class TransactionLogKey:
    """The key of a transactional id's record."""

    transactional_id: string = field()


@struct
class TransactionLogPartition:
    """Partitions of a topic that take part."""

    topic: string = field()
    partition_ids: list[i32] = field()


@message(versions="0-1", flexible="1+")
class TransactionLogValue:
    """The state of a transactional id."""

    producer_id: i64 = field()
    producer_epoch: i16 = field()
    transaction_timeout_ms: i32 = field()
    transaction_status: i8 = field()
    """A place in `STATES`."""
    transaction_partitions: list[TransactionLogPartition] | None = field(nullable="0+")
    transaction_last_update_timestamp_ms: i64 = field()
    transaction_start_timestamp_ms: i64 = field()
    previous_producer_id: i64 = field("1+", tag=0, default=-1, ignorable=True)
    """The id before this one, when its epochs have run out (KIP-890)."""
    next_producer_id: i64 = field("1+", tag=1, default=-1, ignorable=True)
    """The id that follows when the transaction is complete, because the epochs of this one have run out."""
    client_transaction_version: i16 = field("1+", tag=2, default=0, ignorable=True)
    """The transaction version of the client; from 2 on each transaction has a new epoch."""
    next_producer_epoch: i16 = field("1+", tag=3, default=-1, ignorable=True)
    """With `next_producer_id`, what a client has that took over the transaction to end it (KIP-939)."""


def encode_transaction_key(key: TransactionLogKey) -> bytes:
    """Return the key of a record."""
    return encode_versioned(key, 0)


def encode_transaction_value(value: TransactionLogValue) -> bytes:
    """Return the value of a record as Apache Kafka writes it: version 1 is for clients that need it (KIP-890)."""
    return encode_versioned(value, 1 if value.client_transaction_version > 0 else 0)


def decode_transaction_key(buffer: Buffer) -> TransactionLogKey:
    """Return the key of a record. Raise CorruptFrame, also for a kind that is not known."""
    return decode_versioned(TransactionLogKey, buffer)


def decode_transaction_value(buffer: Buffer) -> TransactionLogValue:
    """Return the value of a record that is no removal. Raise CorruptFrame."""
    return decode_versioned(TransactionLogValue, buffer)


def partition_names(value: TransactionLogValue) -> list[str]:
    """Return the partitions that take part as `topic-partition`."""
    return [
        f"{one.topic}-{partition}"
        for one in value.transaction_partitions or ()
        for partition in one.partition_ids
    ]


def state_name(value: TransactionLogValue) -> str:
    """Return Kafka's word for the state."""
    number = value.transaction_status
    return STATES[number] if 0 <= number < len(STATES) else f"Unknown({number})"
