"""AlterClientQuotas: changes of the quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

import logging

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.memory import check_count
from kavka.core.quota.alterations import InvalidAlteration, QuotaOp, entity_of, parts_of
from kavka.core.quota.entities import QuotaEntity
from kavka.errors import ErrorCode, error_message
from kavka.registry.interface import Registry
from kavka.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
)

log = logging.getLogger(__name__)

_MAX_OPS = 10_000
_MAX_PARTS = 100
"""An entity has two, a user and a client; more are refused by name, very many without a response."""


async def handle(
    registry: Registry, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Store each entity's changes, in the order of the request; on any broker, as in Apache Kafka."""
    response = AlterClientQuotasResponse()
    for entry in request.entries:
        response.entries.append(
            await _alter_entry(registry, entry, validate_only=request.validate_only)
        )
        if context.pace.is_over():
            await context.pace.rest()
    return response


async def _alter_entry(
    registry: Registry, entry: AlterClientQuotasRequestEntry, *, validate_only: bool
) -> AlterClientQuotasResponseEntry:
    check_count("ALTER_CLIENT_QUOTAS", "parts of one entity", len(entry.entity), _MAX_PARTS)
    result = AlterClientQuotasResponseEntry(
        entity=[
            AlterClientQuotasResponseEntity(
                entity_type=part.entity_type, entity_name=part.entity_name
            )
            for part in entry.entity
        ]
    )
    check_count("ALTER_CLIENT_QUOTAS", "quotas of one entity", len(entry.ops), _MAX_OPS)
    try:
        entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
        await _alter(registry, entity, entry, validate_only=validate_only)
    except InvalidAlteration as error:
        result.error_code = ErrorCode.INVALID_REQUEST
        result.error_message = error_message(str(error))
    return result


async def _alter(
    registry: Registry,
    entity: QuotaEntity,
    entry: AlterClientQuotasRequestEntry,
    *,
    validate_only: bool,
) -> None:
    from kavka.broker.quotas.stored_quotas import alter_quotas

    ops = [QuotaOp(op.key, None if op.remove else op.value) for op in entry.ops]
    await alter_quotas(registry, entity, ops, validate_only=validate_only)
    if not validate_only:
        shown = ", ".join(f"{kind}={name or '<default>'}" for kind, name in parts_of(entity))
        log.info("client quotas altered entity=%r quotas=%r", shown, ops)
