"""DescribeAcls: list access control entries."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.services import Services
from kavka.errors import ErrorCode
from kavka.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(
    services: Services, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """Answer SECURITY_DISABLED: there is no authorizer."""
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=[],
    )
