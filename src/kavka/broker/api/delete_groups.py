"""DeleteGroups: empty groups go, with their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.group.events import DeleteGroup
from kavka.core.machine import Token
from kavka.errors import ErrorCode
from kavka.wire.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseGroup,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators


async def handle(
    groups: GroupCoordinators, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Ask each group's shard."""
    pace = context.pace
    results = []
    for group_id in dict.fromkeys(request.groups_names):

        def make(token: Token, group_id: str = group_id) -> DeleteGroup:
            return DeleteGroup(token, group_id)

        if context.allows(AclOperation.DELETE, AclResourceType.GROUP, group_id):
            reply = await groups.submit(group_id, make)
            code = reply if isinstance(reply, ErrorCode) else reply.error_code
        else:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        results.append(DeleteGroupsResponseGroup(group_id=group_id, error_code=code))
        if pace.is_over(4):
            await pace.rest()
    return DeleteGroupsResponse(results=results)
