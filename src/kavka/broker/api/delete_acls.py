"""DeleteAcls: the removal of access rules."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.services import Services
from kavka.errors import ErrorCode
from kavka.wire.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseFilterResult,
)


def handle(
    services: Services, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """Refuse each filter as Apache Kafka without an authorizer: SECURITY_DISABLED."""
    refused = DeleteAclsResponseFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured.",
        matching_acls=[],
    )
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
