"""Records of transactions as the codec of messages encodes them; brokers write the same bytes without messages."""

from __future__ import annotations

from kavka.wire.stored.transactions import TransactionLogKey, TransactionLogValue
from kavka.wire.versioned import encode_versioned


def encode_transaction_key(key: TransactionLogKey) -> bytes:
    """Return the key of a record."""
    return encode_versioned(key, 0)


def encode_transaction_value(value: TransactionLogValue) -> bytes:
    """Return the value of a record, of version 1 where its client needs it (KIP-890)."""
    return encode_versioned(value, 1 if value.client_transaction_version > 0 else 0)
