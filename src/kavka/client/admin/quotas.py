"""Quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kavka.client import arguments
from kavka.client.admin.router import Router, plain, refusal
from kavka.core.quota.alterations import parts_of
from kavka.core.quota.entities import DEFAULT, Default, Name, QuotaEntity
from kavka.errors import KafkaError
from kavka.values import frozen
from kavka.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
)
from kavka.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
)

ClientQuotaEntity = QuotaEntity
"""A user, a client id, both, or an address; `DEFAULT_ENTITY` in place of a name stands for the default."""
DEFAULT_ENTITY: Final = DEFAULT

_EXACT, _DEFAULT, _ANY = range(3)


@frozen
class QuotaComponent:
    """A part that the entities of `describe_client_quotas` must have."""

    entity_type: str
    """user, client-id or ip."""
    name: str | Default | None = None
    """The name, or `DEFAULT_ENTITY`; None stands for any."""


async def describe_client_quotas(
    router: Router,
    components: Iterable[QuotaComponent],
    strict: bool,
    timeout_ms: int | None,
) -> dict[ClientQuotaEntity, dict[str, float]]:
    """See `Admin.describe_client_quotas`."""
    request = DescribeClientQuotasRequest(
        components=[
            _component(component)
            for component in arguments.each("components", components, QuotaComponent)
        ],
        strict=strict,
    )
    response = await router.any(plain(request), lambda response: [response.error_code], timeout_ms)
    error = refusal(response.error_code, response.error_message)
    if error is not None:
        raise error
    return {
        _entity({part.entity_type: part.entity_name for part in entry.entity}): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries or []
    }


def _component(component: QuotaComponent) -> DescribeClientQuotasRequestComponent:
    name = component.name
    match_type = _ANY if name is None else _DEFAULT if name is DEFAULT else _EXACT
    return DescribeClientQuotasRequestComponent(
        entity_type=component.entity_type,
        match_type=match_type,
        match=name if isinstance(name, str) else None,
    )


def _entity(parts: Mapping[str, str | None]) -> ClientQuotaEntity:
    named: dict[str, Name] = {
        kind: DEFAULT if name is None else name for kind, name in parts.items()
    }
    return QuotaEntity(named.get("user"), named.get("client-id"), named.get("ip"))


async def alter_client_quotas(
    router: Router,
    changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
    validate_only: bool,
    timeout_ms: int | None,
) -> dict[ClientQuotaEntity, KafkaError | None]:
    """See `Admin.alter_client_quotas`."""
    entries = [
        AlterClientQuotasRequestEntry(
            entity=[
                AlterClientQuotasRequestEntity(entity_type=kind, entity_name=name)
                for kind, name in parts_of(entity)
            ],
            ops=[
                AlterClientQuotasRequestOp(key=key, value=value or 0.0, remove=value is None)
                for key, value in arguments.by(f"the quotas of {entity}", quotas, str).items()
            ],
        )
        for entity, quotas in arguments.by("changes", changes, QuotaEntity).items()
    ]
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    response = await router.any(
        plain(request),
        lambda response: [entry.error_code for entry in response.entries],
        timeout_ms,
    )
    return {
        _entity({part.entity_type: part.entity_name for part in entry.entity}): refusal(
            entry.error_code, entry.error_message
        )
        for entry in response.entries
    }
