"""SyncGroup: the leader sends the assignments, each member gets its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.requests.context import RequestContext
from kavka.core.group.events import Sync, SyncReply
from kavka.errors import ErrorCode
from kavka.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators


_FIRST_WITH_PROTOCOL = 5
"""The first version in which members must name their protocol."""


async def handle(
    groups: GroupCoordinators, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse:
    """Ask the group's shard; it answers when the leader has spoken."""
    if context.version >= _FIRST_WITH_PROTOCOL and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assignments: list[tuple[str, bytes]] = []
    for given in request.assignments:
        assignments.append((given.member_id, given.assignment))
        if context.pace.is_over():
            await context.pace.rest()
    reply = await groups.submit(
        request.group_id,
        lambda token: Sync(
            token,
            request.group_id,
            request.generation_id,
            request.member_id,
            request.group_instance_id,
            request.protocol_type,
            request.protocol_name,
            tuple(assignments),
        ),
    )
    if isinstance(reply, ErrorCode):
        reply = SyncReply(reply)
    return SyncGroupResponse(
        error_code=reply.error_code,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )
