"""Gives a producer its id and epoch, and fences the earlier producer of its id (KIP-98, KIP-360, KIP-939)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, i64, message, string


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest:
    """Asks for a producer id: any broker if there is no transactional id, else its coordinator."""

    transactional_id: string | None = field(nullable="0+", default=None)
    """None for a producer that is idempotent only."""
    transaction_timeout_ms: i32 = field()
    """After which the coordinator aborts a transaction, milliseconds; for transactional
    producers.
    """
    producer_id: i64 = field("3+", default=-1)
    """The id that the producer has and wants a new epoch for; -1 for none (KIP-360)."""
    producer_epoch: i16 = field("3+", default=-1)
    """The epoch that it has; -1 for none."""
    enable_2pc: boolean = field("6+", default=False)
    """True if the coordinator must never abort a transaction because of its age (KIP-939)."""
    keep_prepared_txn: boolean = field("6+", default=False)
    """True if an ongoing transaction is kept, for this producer to complete it (KIP-939)."""


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """A producer's id and epoch."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS: find the
    coordinator, try again. CONCURRENT_TRANSACTIONS: an unfinished transaction is being
    aborted first, try again. INVALID_TRANSACTION_TIMEOUT. PRODUCER_FENCED
    (INVALID_PRODUCER_EPOCH below version 4): a newer producer has taken the id.
    INVALID_REQUEST: an empty transactional id. UNSUPPORTED_VERSION: to keep a transaction needs
    transaction.version 2. TRANSACTIONAL_ID_AUTHORIZATION_FAILED: also where two-phase commit is
    not allowed. CLUSTER_AUTHORIZATION_FAILED.
    """
    producer_id: i64 = field(default=-1)
    producer_epoch: i16 = field()
    ongoing_txn_producer_id: i64 = field("6+", default=-1)
    """The producer id of the transaction that was kept; -1 for none."""
    ongoing_txn_producer_epoch: i16 = field("6+", default=-1)
    """The epoch in which its records are written; -1 for none."""
