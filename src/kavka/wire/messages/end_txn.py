"""Commits or aborts a transaction (KIP-98, KIP-890)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, i64, message, string


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    """Decides the transaction; safe to repeat while no response came."""

    transactional_id: string = field()
    producer_id: i64 = field()
    producer_epoch: i16 = field()
    committed: boolean = field()
    """True commits, False aborts."""


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    """The decision is stored; partitions get their markers afterwards."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS: find the
    coordinator, try again. CONCURRENT_TRANSACTIONS: try again. INVALID_PRODUCER_ID_MAPPING,
    PRODUCER_FENCED (INVALID_PRODUCER_EPOCH below version 2). INVALID_TXN_STATE: nothing to end,
    or it ended the other way. TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    """
    producer_id: i64 = field("5+", default=-1, ignorable=True)
    """The producer id of the next transaction: another one when the epochs of the last have run out; -1 on error."""
    producer_epoch: i16 = field("5+", default=-1, ignorable=True)
    """The epoch of the next transaction; -1 on error."""
