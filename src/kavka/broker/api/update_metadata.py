"""UpdateMetadata: the controller's update of live brokers and leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.control.control_requests import ControlRequests
from kavka.broker.requests.context import RequestContext
from kavka.errors import ErrorCode
from kavka.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from kavka.broker.control.control_request_check import ControlRequestCheck


async def handle(
    control_requests: ControlRequests,
    control_request_check: ControlRequestCheck,
    context: RequestContext,
    request: UpdateMetadataRequest,
) -> UpdateMetadataResponse:
    """Apply the request if it comes from the controller."""
    error = await control_request_check.check(request, is_authorized=context.may_act_in_cluster())
    if error is not ErrorCode.NONE:
        return UpdateMetadataResponse(error_code=error)
    return await control_requests.update_metadata(request, context.version)
