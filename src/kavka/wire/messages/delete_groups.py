"""DeleteGroups (key 42)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """The request of DeleteGroups."""

    groups_names: list[string] = field()


@struct
class DeleteGroupsResponseGroup:
    """Part of DeleteGroupsResponse."""

    group_id: string = field()
    error_code: i16 = field()


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """The response of DeleteGroups."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    results: list[DeleteGroupsResponseGroup] = field()
