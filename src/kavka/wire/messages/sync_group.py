"""Hand out the leader's assignment; answered when the leader has sent it (KIP-345, KIP-559)."""

from __future__ import annotations

from kavka.wire.schema import binary, field, i16, i32, message, string, struct


@struct
class SyncGroupRequestAssignment:
    """The assignment of one member."""

    member_id: string = field()
    assignment: binary = field()
    """For consumers an `Assignment`."""


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    """Sent by all members after a join; the leader's carries the assignment."""

    group_id: string = field()
    generation_id: i32 = field()
    member_id: string = field()
    group_instance_id: string | None = field("3+", nullable="3+", default=None)
    """The name of a static member (KIP-345); None for a dynamic one."""
    protocol_type: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    """Must be the group's where given (KIP-559)."""
    protocol_name: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    """Must be the group's where given (KIP-559)."""
    assignments: list[SyncGroupRequestAssignment] = field()
    """From the leader: what each member gets. Empty from the others."""


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    """The member's assignment."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID: join
    again, the last two as a new member. INCONSISTENT_GROUP_PROTOCOL: type or name is not the
    group's. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
    INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED.
    """
    protocol_type: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    assignment: binary = field()
    """Empty for a member that gets nothing, and on error."""
