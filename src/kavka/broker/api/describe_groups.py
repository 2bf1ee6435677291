"""DescribeGroups: members and state of groups."""

from __future__ import annotations

from kavka.broker.access import group_operations
from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.core.group.events import DescribedGroup
from kavka.wire.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)


def handle(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Show each group; one that does not exist is Dead."""
    groups = [_show(broker.groups.describe(group_id)) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = group_operations()
    return DescribeGroupsResponse(groups=groups)


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
