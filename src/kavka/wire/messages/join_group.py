"""JoinGroup (key 11)."""

from __future__ import annotations

from kavka.wire.schema import binary, boolean, field, i16, i32, message, string, struct


@struct
class JoinGroupRequestProtocol:
    """Part of JoinGroupRequest."""

    name: string = field()
    metadata: binary = field()


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """The request of JoinGroup."""

    group_id: string = field()
    session_timeout_ms: i32 = field()
    rebalance_timeout_ms: i32 = field("1+", default=-1, ignorable=True)
    member_id: string = field()
    group_instance_id: string | None = field("5+", nullable="5+", default=None)
    protocol_type: string = field()
    protocols: list[JoinGroupRequestProtocol] = field()
    reason: string | None = field("8+", nullable="8+", default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    """Part of JoinGroupResponse."""

    member_id: string = field()
    group_instance_id: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    metadata: binary = field()


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """The response of JoinGroup."""

    throttle_time_ms: i32 = field("2+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field()
    generation_id: i32 = field(default=-1)
    protocol_type: string | None = field("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: string | None = field(nullable="7+")
    leader: string = field()
    skip_assignment: boolean = field("9+")
    member_id: string = field()
    members: list[JoinGroupResponseMember] = field()
