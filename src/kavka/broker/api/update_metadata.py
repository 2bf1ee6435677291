"""UpdateMetadata: the controller's update of live brokers and leaders."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.services import Services
from kavka.errors import ErrorCode
from kavka.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def handle(
    services: Services, context: RequestContext, request: UpdateMetadataRequest
) -> UpdateMetadataResponse:
    """Apply the request if it comes from the controller."""
    if not context.may_act_in_cluster():
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        error = await services.control_request_check.check(request)
    if error is not ErrorCode.NONE:
        return UpdateMetadataResponse(error_code=error)
    return await services.control_requests.update_metadata(request, context.version)
