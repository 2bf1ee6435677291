"""The state of transactional ids (KIP-664)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string, struct


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """Asks a coordinator for the state of its transactional ids."""

    transactional_ids: list[string] = field()


@struct
class DescribeTransactionsResponseTopic:
    """Partitions of one topic."""

    topic: string = field()
    partitions: list[i32] = field()


@struct
class DescribeTransactionsResponseTransactionState:
    """The state of one transactional id."""

    error_code: i16 = field()
    """TRANSACTIONAL_ID_NOT_FOUND, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST for an empty id,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    """
    transactional_id: string = field()
    transaction_state: string = field()
    """Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort or
    PrepareEpochFence.
    """
    transaction_timeout_ms: i32 = field()
    transaction_start_time_ms: i64 = field()
    """Milliseconds since 1970; -1 when no transaction has begun."""
    producer_id: i64 = field()
    producer_epoch: i16 = field()
    topics: list[DescribeTransactionsResponseTopic] = field()
    """The partitions that take part; of a transaction that is being ended, those without marker."""


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    """The states, in the order of the request."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    transaction_states: list[DescribeTransactionsResponseTransactionState] = field()
