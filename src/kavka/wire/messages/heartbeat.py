"""Keep a group member alive (KIP-345)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    """Says that a member of this generation lives."""

    group_id: string = field()
    generation_id: i32 = field()
    member_id: string = field()
    group_instance_id: string | None = field("3+", nullable="3+", default=None)
    """The name of a static member (KIP-345); None for a dynamic one."""


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    """Result of a heartbeat: the member continues, or must rejoin."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """REBALANCE_IN_PROGRESS: join again. ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID: the membership is lost. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE:
    find the coordinator. INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED.
    """
