"""DescribeClientQuotas: which quotas users, clients and addresses have (KIP-546)."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.broker.quotas.stored_quotas import read_quotas
from kavka.broker.requests.context import RequestContext
from kavka.core.quota.alterations import Component, QuotaFilter, parts_of
from kavka.core.quota.entities import DEFAULT, Name, QuotaEntity
from kavka.errors import ErrorCode, error_message
from kavka.registry.interface import Registry
from kavka.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntity,
    DescribeClientQuotasResponseEntry,
    DescribeClientQuotasResponseValue,
)

_ENTITY_TYPES = ("user", "client-id", "ip")
_EXACT, _DEFAULT, _ANY = range(3)


async def handle(
    registry: Registry, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Answer with what is stored at this moment. What Apache Kafka refuses to look for is refused."""
    refusal = _refusal(request.components)
    if refusal is not None:
        code, message = refusal
        return DescribeClientQuotasResponse(
            error_code=code, error_message=error_message(message), entries=None
        )
    components = [_component(component) for component in request.components]
    wanted = QuotaFilter(components, is_strict=request.strict)
    found = await read_quotas(registry, wanted)
    entries = []
    for entity, quotas in found.items():
        entries.append(_entry(entity, quotas))
        if context.pace.is_over():
            await context.pace.rest()
    return DescribeClientQuotasResponse(error_message="", entries=entries)


def _component(component: DescribeClientQuotasRequestComponent) -> Component:
    names: dict[int, frozenset[Name] | None] = {
        _EXACT: frozenset([component.match]),
        _DEFAULT: frozenset([DEFAULT]),
        _ANY: None,
    }
    return Component(component.entity_type, names[component.match_type])


def _entry(entity: QuotaEntity, quotas: dict[str, float]) -> DescribeClientQuotasResponseEntry:
    return DescribeClientQuotasResponseEntry(
        entity=[
            DescribeClientQuotasResponseEntity(entity_type=kind, entity_name=name)
            for kind, name in parts_of(entity)
        ],
        values=[
            DescribeClientQuotasResponseValue(key=key, value=value) for key, value in quotas.items()
        ],
    )


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
        if component.match_type not in (_EXACT, _DEFAULT, _ANY):
            return ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}"
        if component.match_type == _EXACT and component.match is None:
            return ErrorCode.INVALID_REQUEST, f"Request specifies MATCH_TYPE_EXACT, but no {kind}"
        seen.add(kind)
    if "ip" in seen and len(seen) > 1:
        return (
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used "
            "with user or clientId filter component.",
        )
    return None
