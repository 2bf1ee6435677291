"""CreateAcls: new access rules."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.services import Services
from kavka.errors import ErrorCode
from kavka.wire.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreateAclsResponseResult,
)


def handle(
    services: Services, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """Refuse each rule as Apache Kafka without an authorizer: SECURITY_DISABLED."""
    refused = CreateAclsResponseResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
    )
    return CreateAclsResponse(results=[refused] * len(request.creations))
