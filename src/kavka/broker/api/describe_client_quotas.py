"""DescribeClientQuotas: which quotas users, clients and addresses have."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.broker.requests.context import RequestContext
from kavka.broker.services import Services
from kavka.errors import ErrorCode, error_message
from kavka.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
    DescribeClientQuotasResponse,
)

_ENTITY_TYPES = ("user", "client-id", "ip")
_MATCH_TYPES = range(3)


def handle(
    services: Services, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Answer that there are none: quotas cannot be set. What Apache Kafka refuses to look for is refused."""
    refusal = _refusal(request.components)
    if refusal is not None:
        code, message = refusal
        return DescribeClientQuotasResponse(
            error_code=code, error_message=error_message(message), entries=None
        )
    return DescribeClientQuotasResponse(error_message="", entries=[])


def _refusal(
    components: Sequence[DescribeClientQuotasRequestComponent],
) -> tuple[ErrorCode, str] | None:
    """Return why no entity can be looked for by these components; None when one can."""
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            return ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type"
        if kind not in _ENTITY_TYPES:
            return ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported"
        if kind in seen:
            return ErrorCode.INVALID_REQUEST, f"Duplicate {kind} filter component entity type"
        if component.match_type not in _MATCH_TYPES:
            return ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}"
        seen.add(kind)
    if "ip" in seen and len(seen) > 1:
        return (
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used "
            "with user or clientId filter component.",
        )
    return None
