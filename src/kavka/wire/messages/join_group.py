"""Become or stay a member of a group; answered after the rebalance (KIP-62, KIP-345, KIP-394, KIP-814)."""

from __future__ import annotations

from kavka.wire.schema import binary, boolean, field, i16, i32, message, string, struct


@struct
class JoinGroupRequestProtocol:
    """An assignor that a member supports."""

    name: string = field()
    metadata: binary = field()
    """The member's metadata for the assignor: for consumers a `Subscription`."""


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """Joins with what the member supports."""

    group_id: string = field()
    session_timeout_ms: i32 = field()
    """Milliseconds without a heartbeat after which the member is removed."""
    rebalance_timeout_ms: i32 = field("1+", default=-1, ignorable=True)
    """Milliseconds for which a rebalance waits for the member; -1 (version 0) means the session timeout.
    """
    member_id: string = field()
    """Empty on the first join; afterwards as the coordinator gave it."""
    group_instance_id: string | None = field("5+", nullable="5+", default=None)
    """The name of a static member (KIP-345); None for a dynamic one."""
    protocol_type: string = field()
    """`consumer` for consumers; all members must agree."""
    protocols: list[JoinGroupRequestProtocol] = field()
    """The assignors that the member supports, its favourite first."""
    reason: string | None = field("8+", nullable="8+", default=None, ignorable=True)
    """Reason for joining, for the broker's log (KIP-800)."""


@struct
class JoinGroupResponseMember:
    """A member, as the leader sees it."""

    member_id: string = field()
    group_instance_id: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    """The name of a static member (KIP-345); None for a dynamic one."""
    metadata: binary = field()
    """The member's metadata for the chosen assignor."""


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """The new generation, with all members if the receiver is the leader."""

    throttle_time_ms: i32 = field("2+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """MEMBER_ID_REQUIRED: join again with the `member_id` of this response. UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID. INCONSISTENT_GROUP_PROTOCOL, INVALID_SESSION_TIMEOUT,
    INVALID_GROUP_ID, GROUP_MAX_SIZE_REACHED: it cannot join this way. NOT_COORDINATOR,
    COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS: find the coordinator, try again.
    REBALANCE_IN_PROGRESS: join again. GROUP_AUTHORIZATION_FAILED.
    """
    generation_id: i32 = field(default=-1)
    """-1 on error."""
    protocol_type: string | None = field("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: string | None = field(nullable="7+")
    """The assignor that all members support; None on error, empty below version 7."""
    leader: string = field()
    """The member that assigns; empty on error."""
    skip_assignment: boolean = field("9+")
    """True if the leader must keep the group's assignment: a static leader came back (KIP-814).
    """
    member_id: string = field()
    members: list[JoinGroupResponseMember] = field()
    """All members in the leader's response; else empty."""
