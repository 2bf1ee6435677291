"""Heartbeat: a member of a group lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.requests.context import RequestContext
from kavka.core.group.events import Heartbeat
from kavka.errors import ErrorCode
from kavka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators


async def handle(
    groups: GroupCoordinators, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse:
    """Ask the group's shard."""
    reply = await groups.submit(
        request.group_id,
        lambda token: Heartbeat(
            token,
            request.group_id,
            request.generation_id,
            request.member_id,
            request.group_instance_id,
        ),
    )
    code = reply if isinstance(reply, ErrorCode) else reply.error_code
    return HeartbeatResponse(error_code=code)
