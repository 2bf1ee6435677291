"""ListGroups (key 16)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """The request of ListGroups."""

    states_filter: list[string] = field("4+")
    types_filter: list[string] = field("5+")


@struct
class ListGroupsResponseGroup:
    """Part of ListGroupsResponse."""

    group_id: string = field()
    protocol_type: string = field()
    group_state: string = field("4+", ignorable=True)
    group_type: string = field("5+", ignorable=True)


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    """The response of ListGroups."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field()
    groups: list[ListGroupsResponseGroup] = field()
