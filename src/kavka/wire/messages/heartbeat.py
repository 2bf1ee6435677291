"""Heartbeat (key 12)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    """The request of Heartbeat."""

    group_id: string = field()
    generation_id: i32 = field()
    member_id: string = field()
    group_instance_id: string | None = field("3+", nullable="3+", default=None)


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    """The response of Heartbeat."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field()
