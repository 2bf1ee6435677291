"""SyncGroup (key 14)."""

from __future__ import annotations

from kavka.wire.schema import binary, field, i16, i32, message, string, struct


@struct
class SyncGroupRequestAssignment:
    """Part of SyncGroupRequest."""

    member_id: string = field()
    assignment: binary = field()


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    """The request of SyncGroup."""

    group_id: string = field()
    generation_id: i32 = field()
    member_id: string = field()
    group_instance_id: string | None = field("3+", nullable="3+", default=None)
    protocol_type: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field()


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    """The response of SyncGroup."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field()
    protocol_type: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    assignment: binary = field()
