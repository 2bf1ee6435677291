"""Leave a group at once instead of by timeout; since version 3 also for several members (KIP-345, KIP-800)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@struct
class LeaveGroupRequestMember:
    """A member to take out: by id, or a static one by its instance id with an empty member id."""

    member_id: string = field()
    group_instance_id: string | None = field(nullable="0+", default=None)
    """The name of a static member (KIP-345); None for a dynamic one."""
    reason: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    """Reason for leaving, for the broker's log (KIP-800)."""


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """Takes members out."""

    group_id: string = field()
    member_id: string = field("0-2")
    members: list[LeaveGroupRequestMember] = field("3+")


@struct
class LeaveGroupResponseMember:
    """Result for one member."""

    member_id: string = field()
    group_instance_id: string | None = field(nullable="0+", default=None)
    """The name of a static member (KIP-345); None for a dynamic one."""
    error_code: i16 = field()
    """UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """Result for each member."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """Of the group: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED. Below version 3 also the error of the one
    member.
    """
    members: list[LeaveGroupResponseMember] = field("3+")
