"""Quotas as the registry has them: read whole or in part, followed, and altered."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Final

from kavka.broker.configs.entity_configs import edit_entity_config, read_entity_config
from kavka.core.quota.alterations import (
    InvalidAlteration,
    QuotaFilter,
    QuotaOp,
    altered,
    quotas_in,
)
from kavka.core.quota.entities import QuotaEntity
from kavka.core.quota.paths import KINDS, entity_at, entity_path
from kavka.registry.interface import Registry, existing_children, gathered
from kavka.wire.stored.znodes import UNSTORABLE

log = logging.getLogger(__name__)

Quotas = dict[str, float]
"""Values by key, `producer_byte_rate` say."""

_AT_ONCE: Final = 64


async def read_quotas(registry: Registry, wanted: QuotaFilter) -> dict[QuotaEntity, Quotas]:
    """Return the entities that fit the filter and have quotas. Raise ConnectionError."""
    named = [
        entity
        for kind in KINDS
        for entity in await _children(registry, kind)
        if wanted.may_match(entity)
    ]
    users = [entity for entity in named if entity.user is not None]
    paths = [f"{entity_path(user)}/clients" for user in users]
    below = await gathered(partial(_children, registry), paths, _AT_ONCE)
    named += [entity for entities in below for entity in entities]
    found = [entity for entity in named if wanted.matches(entity)]
    quotas = await gathered(partial(read_entity_quotas, registry), found, _AT_ONCE)
    return {entity: each for entity, each in zip(found, quotas, strict=True) if each}


async def read_entity_quotas(registry: Registry, entity: QuotaEntity) -> Quotas:
    """Return the quotas of one entity; those that are no numbers are left out. Raise ConnectionError."""
    path = entity_path(entity)
    config = await read_entity_config(registry, path)
    try:
        return quotas_in(entity, config)
    except ValueError as error:
        log.warning("stored quotas ignored entity=%s reason=%s", path, error)
        return {}


async def alter_quotas(
    registry: Registry, entity: QuotaEntity, ops: Iterable[QuotaOp], *, validate_only: bool
) -> None:
    """Change the quotas of one entity. Raise InvalidAlteration, ConnectionError."""
    if any(name in UNSTORABLE for name in (entity.user, entity.client_id)):
        raise InvalidAlteration("The registry has no place for an entity that is called . or ..")
    changes, path = list(ops), entity_path(entity)
    if validate_only:
        altered(entity, await read_entity_config(registry, path), changes)
        return
    await edit_entity_config(registry, path, lambda config: altered(entity, config, changes))


async def _children(registry: Registry, path: str) -> list[QuotaEntity]:
    """Return the entities that have nodes below a path; a node may be there without quotas."""
    names = await existing_children(registry, f"/config/{path}")
    entities = (entity_at(f"{path}/{name}") for name in names)
    return [entity for entity in entities if entity is not None]
