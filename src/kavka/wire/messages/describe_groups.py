"""The state and the members of groups (KIP-430)."""

from __future__ import annotations

from kavka.wire.schema import binary, boolean, field, i16, i32, message, string, struct


@message(api_key=15, versions="0-5", flexible="5+")
class DescribeGroupsRequest:
    """Asks the coordinator of groups."""

    groups: list[string] = field()
    include_authorized_operations: boolean = field("3+")


@struct
class DescribeGroupsResponseMember:
    """A member."""

    member_id: string = field()
    group_instance_id: string | None = field("4+", nullable="4+", default=None, ignorable=True)
    """The name of a static member (KIP-345); None for a dynamic one."""
    client_id: string = field()
    client_host: string = field()
    """Address that it joined from, after a slash."""
    member_metadata: binary = field()
    """The member's metadata for the assignor in use; empty unless the group is Stable."""
    member_assignment: binary = field()
    """The member's assignment; empty unless the group is Stable."""


@struct
class DescribeGroupsResponseGroup:
    """A group; one that is not known is Dead and has no members."""

    error_code: i16 = field()
    """NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED.
    """
    group_id: string = field()
    group_state: string = field()
    """Empty, PreparingRebalance, CompletingRebalance, Stable or Dead."""
    protocol_type: string = field()
    protocol_data: string = field()
    """The assignor in use; empty unless the group is Stable."""
    members: list[DescribeGroupsResponseMember] = field()
    authorized_operations: i32 = field("3+", default=-2147483648)
    """A set of bits by AclOperation; the smallest number when not asked for."""


@message(api_key=15, versions="0-5", flexible="5+")
class DescribeGroupsResponse:
    """The groups."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    groups: list[DescribeGroupsResponseGroup] = field()
