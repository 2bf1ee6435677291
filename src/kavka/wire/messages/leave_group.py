"""LeaveGroup (key 13)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@struct
class LeaveGroupRequestMember:
    """Part of LeaveGroupRequest."""

    member_id: string = field()
    group_instance_id: string | None = field(nullable="0+", default=None)
    reason: string | None = field("5+", nullable="5+", default=None, ignorable=True)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """The request of LeaveGroup."""

    group_id: string = field()
    member_id: string = field("0-2")
    members: list[LeaveGroupRequestMember] = field("3+")


@struct
class LeaveGroupResponseMember:
    """Part of LeaveGroupResponse."""

    member_id: string = field()
    group_instance_id: string | None = field(nullable="0+", default=None)
    error_code: i16 = field()


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """The response of LeaveGroup."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field()
    members: list[LeaveGroupResponseMember] = field("3+")
