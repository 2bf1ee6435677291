"""FindCoordinator (key 10)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, message, string, struct


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """The request of FindCoordinator."""

    key: string = field("0-3")
    key_type: i8 = field("1+")
    coordinator_keys: list[string] = field("4+")


@struct
class FindCoordinatorResponseCoordinator:
    """Part of FindCoordinatorResponse."""

    key: string = field()
    node_id: i32 = field()
    host: string = field()
    port: i32 = field()
    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """The response of FindCoordinator."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field("0-3")
    error_message: string | None = field("1-3", nullable="1-3", default=None, ignorable=True)
    node_id: i32 = field("0-3")
    host: string = field("0-3")
    port: i32 = field("0-3")
    coordinators: list[FindCoordinatorResponseCoordinator] = field("4+")
