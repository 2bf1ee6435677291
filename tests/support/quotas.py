"""Quotas as an administrator sets them, over the wire."""

from __future__ import annotations

from typing import Any

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
from support.one_broker import Served

Entity = dict[str, str | None]
"""Names by type: user, client-id, ip; the name None is the default."""
EXACT, DEFAULT, ANY = range(3)


async def alter(
    served: Served, entity: Entity, quotas: dict[str, float | None], *, validate_only: bool = False
) -> Any:
    """Set quotas, remove those that are None, and return the answer."""
    entry = AlterClientQuotasRequestEntry(
        entity=[
            AlterClientQuotasRequestEntity(entity_type=kind, entity_name=name)
            for kind, name in entity.items()
        ],
        ops=[
            AlterClientQuotasRequestOp(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    (answer,) = (await served.send(request)).entries
    return answer


async def describe(
    served: Served, *components: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[Entity, dict[str, float]]]:
    """Return the entities that fit components (type, kind of match, name), with their quotas."""
    asked = [
        DescribeClientQuotasRequestComponent(entity_type=kind, match_type=match, match=name)
        for kind, match, name in components
    ]
    response = await served.send(DescribeClientQuotasRequest(components=asked, strict=strict))
    assert response.error_code == 0
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries
    ]
