"""Makes the offsets of a group part of a transaction (KIP-98)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """Announces to the transaction's coordinator that TxnOffsetCommit follows, to the group's coordinator."""

    transactional_id: string = field()
    producer_id: i64 = field()
    producer_epoch: i16 = field()
    group_id: string = field()


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """Result of adding the group's partition of `__consumer_offsets` to the transaction."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS: find the
    coordinator, try again. CONCURRENT_TRANSACTIONS: try again. INVALID_PRODUCER_ID_MAPPING,
    PRODUCER_FENCED (INVALID_PRODUCER_EPOCH below version 2), INVALID_GROUP_ID,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED.
    """
