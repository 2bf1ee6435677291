"""AlterClientQuotas: changes of the quotas of users, clients and addresses."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.services import Services
from kavka.errors import ErrorCode
from kavka.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
)

_REFUSAL = "This broker has no client quotas: none was changed, and none would be obeyed."


async def handle(
    services: Services, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Refuse each entity's changes: a stored quota without effect would be taken as one that is."""
    answer = AlterClientQuotasResponse()
    for entry in request.entries:
        refused = AlterClientQuotasResponseEntry(
            error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_REFUSAL
        )
        answer.entries.append(refused)
        for part in entry.entity:
            entity = AlterClientQuotasResponseEntity(
                entity_type=part.entity_type, entity_name=part.entity_name
            )
            refused.entity.append(entity)
            if context.pace.is_over():
                await context.pace.rest()
        if context.pace.is_over():
            await context.pace.rest()
    return answer
