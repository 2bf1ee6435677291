"""LeaveGroup: one member leaves, or several from version 3 on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kavka.broker.requests.context import RequestContext
from kavka.core.group.events import Leave, LeavingMember
from kavka.core.machine import Token
from kavka.errors import ErrorCode
from kavka.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators


_FIRST_BATCHED = 3
_AT_ONCE = 500


async def handle(
    groups: GroupCoordinators, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse:
    """Ask the group's shard."""
    leaving = request.members
    if context.version < _FIRST_BATCHED:
        leaving = [LeaveGroupRequestMember(member_id=request.member_id)]
    result = await _leave(groups, context, request.group_id, leaving)
    if context.version < _FIRST_BATCHED:
        code = result.error_code or next((row.error_code for row in result.members), 0)
        return LeaveGroupResponse(error_code=code)
    return result


async def _leave(
    groups: GroupCoordinators,
    context: RequestContext,
    group_id: str,
    leaving: list[LeaveGroupRequestMember],
) -> LeaveGroupResponse:
    """Remove members, some at a time; an error that concerns all of them is returned at once."""
    response = LeaveGroupResponse(error_code=ErrorCode.NONE)
    for at in range(0, max(1, len(leaving)), _AT_ONCE):
        some = tuple(
            LeavingMember(member.member_id, member.group_instance_id)
            for member in leaving[at : at + _AT_ONCE]
        )
        reply = await groups.submit(group_id, partial(_event, group_id, some))
        if isinstance(reply, ErrorCode):
            return LeaveGroupResponse(error_code=reply)
        if reply.error_code is not ErrorCode.NONE:
            return LeaveGroupResponse(error_code=reply.error_code)
        response.members += [
            LeaveGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=code,
            )
            for member, code in reply.members
        ]
        if context.pace.is_over(_AT_ONCE):
            await context.pace.rest()
    return response


def _event(group_id: str, leaving: tuple[LeavingMember, ...], token: Token) -> Leave:
    return Leave(token, group_id, leaving)
