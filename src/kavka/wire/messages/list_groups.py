"""The groups that a broker coordinates (KIP-518, KIP-848)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """Asks one coordinator for its groups."""

    states_filter: list[string] = field("4+")
    """Names of states, in any case; empty takes all."""
    types_filter: list[string] = field("5+")
    """`classic` or `consumer`, in any case; empty takes both."""


@struct
class ListGroupsResponseGroup:
    """A group."""

    group_id: string = field()
    protocol_type: string = field()
    """`consumer` for consumers; empty for a group that only keeps offsets."""
    group_state: string = field("4+", ignorable=True)
    """Empty, PreparingRebalance, CompletingRebalance, Stable or Dead."""
    group_type: string = field("5+", ignorable=True)


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    """The groups of this coordinator."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """COORDINATOR_NOT_AVAILABLE. COORDINATOR_LOAD_IN_PROGRESS: the list may lack groups."""
    groups: list[ListGroupsResponseGroup] = field()
