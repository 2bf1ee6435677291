"""Delete groups with their offsets (KIP-229)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """Groups to delete; they must be empty."""

    groups_names: list[string] = field()


@struct
class DeleteGroupsResponseGroup:
    """Result for one group."""

    group_id: string = field()
    error_code: i16 = field()
    """NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED.
    """


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """Result for each group."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    results: list[DeleteGroupsResponseGroup] = field()
