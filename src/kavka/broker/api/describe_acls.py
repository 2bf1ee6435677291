"""DescribeAcls: the ACLs that a filter chooses."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Slices
from kavka.broker.security.access_control import AccessControl
from kavka.broker.security.acl_requests import acl_store, chosen, read_filter
from kavka.core.access.entries import ResourcePattern
from kavka.errors import ErrorCode, error_message
from kavka.wire.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAcl,
    DescribeAclsResponseResource,
)


async def handle(
    slices: Slices,
    access_control: AccessControl | None,
    context: RequestContext,
    request: DescribeAclsRequest,
) -> DescribeAclsResponse:
    """List ACLs by their patterns; SECURITY_DISABLED where there is no authorizer that keeps any."""
    store = acl_store(access_control)
    if store is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    wanted = read_filter(request, version=context.version)
    if isinstance(wanted, str):
        return DescribeAclsResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message=error_message(wanted)
        )
    resources: dict[ResourcePattern, DescribeAclsResponseResource] = {}
    pace = slices.pace()
    async for pattern, entry in chosen(store, wanted, pace):
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = DescribeAclsResponseResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
            )
        resource.acls.append(
            DescribeAclsResponseAcl(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))
