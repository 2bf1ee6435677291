"""The transactional ids that a broker coordinates (KIP-664, KIP-994)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string, struct


@message(api_key=66, versions="0-1", flexible="0+")
class ListTransactionsRequest:
    """Asks one coordinator for its transactional ids."""

    state_filters: list[string] = field()
    """Names of states, as Kafka writes them; empty takes all."""
    producer_id_filters: list[i64] = field()
    """Empty takes all."""
    duration_filter: i64 = field("1+", default=-1)
    """Takes only transactions that run for longer, milliseconds; negative takes all."""


@struct
class ListTransactionsResponseTransactionState:
    """A transactional id."""

    transactional_id: string = field()
    producer_id: i64 = field()
    transaction_state: string = field()


@message(api_key=66, versions="0-1", flexible="0+")
class ListTransactionsResponse:
    """The transactional ids of this coordinator."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """COORDINATOR_NOT_AVAILABLE. COORDINATOR_LOAD_IN_PROGRESS: the list would lack some."""
    unknown_state_filters: list[string] = field()
    """Filters that name no state."""
    transaction_states: list[ListTransactionsResponseTransactionState] = field()
