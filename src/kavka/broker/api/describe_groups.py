"""DescribeGroups: members and state of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.requests.authorized_operations import group_operations
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Slices
from kavka.broker.requests.repetitions import Repetitions
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.group.events import DescribedGroup
from kavka.errors import ErrorCode
from kavka.wire.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators


async def handle(
    slices: Slices,
    groups: GroupCoordinators,
    context: RequestContext,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse:
    """Show each group; one that does not exist is Dead."""
    pace = slices.pace()
    repetitions = Repetitions("DESCRIBE_GROUPS")
    shown: dict[str, DescribeGroupsResponseGroup] = {}
    rows = []
    for group_id in request.groups:
        group = shown.get(group_id)
        if group is None:
            group = shown[group_id] = _describe(groups, context, group_id)
            if request.include_authorized_operations and not group.error_code:
                group.authorized_operations = group_operations(context, group_id)
        else:
            repetitions.add(group)
        rows.append(group)
        if pace.is_over(1 + len(group.members)):
            await pace.rest()
    return DescribeGroupsResponse(groups=rows)


def _describe(
    groups: GroupCoordinators, context: RequestContext, group_id: str
) -> DescribeGroupsResponseGroup:
    if not context.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return DescribeGroupsResponseGroup(group_id=group_id, error_code=code)
    return _show(groups.describe(group_id))


def _show(group: DescribedGroup) -> DescribeGroupsResponseGroup:
    return DescribeGroupsResponseGroup(
        error_code=group.error_code,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_data,
        members=[
            DescribeGroupsResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )
