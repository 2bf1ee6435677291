"""Find the coordinator of a group or of a transactional id (KIP-98, KIP-699)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, message, string, struct


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """Asks for coordinators: of one key below version 4, of several from then on."""

    key: string = field("0-3")
    """A group id or transactional id."""
    key_type: i8 = field("1+")
    """0: groups. 1: transactional ids. 2: share groups (version 6)."""
    coordinator_keys: list[string] = field("4+")


@struct
class FindCoordinatorResponseCoordinator:
    """The coordinator of one key."""

    key: string = field()
    node_id: i32 = field()
    """-1 on error."""
    host: string = field()
    port: i32 = field()
    error_code: i16 = field()
    """COORDINATOR_NOT_AVAILABLE: its partition has no leader, or the internal topic is being
    made. INVALID_REQUEST: a key type that is not known. INVALID_GROUP_ID,
    GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field(nullable="0+", default=None)


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """The coordinators; the first fields answer for one key, `coordinators` for several."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field("0-3")
    """As that of a coordinator below."""
    error_message: string | None = field("1-3", nullable="1-3", default=None, ignorable=True)
    node_id: i32 = field("0-3")
    """-1 on error."""
    host: string = field("0-3")
    port: i32 = field("0-3")
    coordinators: list[FindCoordinatorResponseCoordinator] = field("4+")
