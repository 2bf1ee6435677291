"""Heartbeat: a member of a group lives."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.services import Services
from kavka.core.group.events import Heartbeat
from kavka.errors import ErrorCode
from kavka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


async def handle(
    services: Services, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse:
    """Ask the group's shard."""
    reply = await services.groups.submit(
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
