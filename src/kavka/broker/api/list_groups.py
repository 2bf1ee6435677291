"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.session import CLUSTER_NAME, AclOperation, AclResourceType
from kavka.wire.messages.list_groups import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseGroup,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators


def handle(
    groups: GroupCoordinators, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    """List groups, filtered by state (version 4 on) and type (version 5 on)."""
    describe = AclOperation.DESCRIBE
    sees_all = context.allows(describe, AclResourceType.CLUSTER, CLUSTER_NAME, is_asked=False)
    code, found = groups.list(request.states_filter, request.types_filter)
    return ListGroupsResponse(
        error_code=code,
        groups=[
            ListGroupsResponseGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in found
            if sees_all
            or context.allows(describe, AclResourceType.GROUP, group.group_id, is_asked=False)
        ],
    )
