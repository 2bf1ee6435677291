"""DescribeAcls: list access control entries."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(
    broker: Broker, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """Answer SECURITY_DISABLED: there is no authorizer."""
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=[],
    )
