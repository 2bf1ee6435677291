"""LeaveGroup: one member leaves, or several from version 3 on."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.core.group.events import Leave, LeaveReply, LeavingMember
from kavka.errors import ErrorCode
from kavka.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
)

_FIRST_BATCHED = 3


async def handle(
    broker: Broker, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse:
    """Ask the group's shard."""
    if context.version < _FIRST_BATCHED:
        leaving: tuple[LeavingMember, ...] = (LeavingMember(request.member_id),)
    else:
        leaving = tuple(LeavingMember(m.member_id, m.group_instance_id) for m in request.members)
    reply = await broker.groups.ask(
        request.group_id, lambda token: Leave(token, request.group_id, leaving)
    )
    if isinstance(reply, ErrorCode):
        reply = LeaveReply(reply)
    if context.version < _FIRST_BATCHED:
        code = reply.error_code
        if code is ErrorCode.NONE and reply.members:
            code = reply.members[0][1]
        return LeaveGroupResponse(error_code=code)
    return LeaveGroupResponse(
        error_code=reply.error_code,
        members=[
            LeaveGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=code,
            )
            for member, code in reply.members
        ],
    )
