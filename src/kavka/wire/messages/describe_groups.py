"""DescribeGroups (key 15)."""

from __future__ import annotations

from kavka.wire.schema import binary, boolean, field, i16, i32, message, string, struct


@message(api_key=15, versions="0-5", flexible="5+")
class DescribeGroupsRequest:
    """The request of DescribeGroups."""

    groups: list[string] = field()
    include_authorized_operations: boolean = field("3+")


@struct
class DescribeGroupsResponseMember:
    """Part of DescribeGroupsResponse."""

    member_id: string = field()
    group_instance_id: string | None = field("4+", nullable="4+", default=None, ignorable=True)
    client_id: string = field()
    client_host: string = field()
    member_metadata: binary = field()
    member_assignment: binary = field()


@struct
class DescribeGroupsResponseGroup:
    """Part of DescribeGroupsResponse."""

    error_code: i16 = field()
    group_id: string = field()
    group_state: string = field()
    protocol_type: string = field()
    protocol_data: string = field()
    members: list[DescribeGroupsResponseMember] = field()
    authorized_operations: i32 = field("3+", default=-2147483648)


@message(api_key=15, versions="0-5", flexible="5+")
class DescribeGroupsResponse:
    """The response of DescribeGroups."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    groups: list[DescribeGroupsResponseGroup] = field()
