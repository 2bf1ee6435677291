"""Quotas as `kavka configs` describes and alters them, in the words of `kafka-configs.sh`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kavka.cli.arguments.options import BadValue
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_rows
from kavka.cli.json_rows.entities import quota_rows
from kavka.client.admin.admin import Admin
from kavka.client.admin.quotas import ClientQuotaEntity, QuotaComponent
from kavka.core.quota.alterations import CLIENT_KEYS, IP_KEYS, java_double, parts_of
from kavka.core.quota.entities import DEFAULT, Name

ENTITY_TYPES = {"users": "user", "clients": "client-id", "ips": "ip"}
"""The names of entities' parts in the protocol."""

_TITLES = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}

Entities = Sequence[tuple[str, str | None]]
"""Kinds and names as the command has them; the empty name is the default, None stands for any."""


async def describe_quotas(admin: Admin, entities: Entities, *, as_json: bool) -> None:
    """Print the quotas of all entities of exactly these kinds and names."""
    found = await _quotas(admin, entities)
    if as_json:
        print_rows(shapes.QUOTA, quota_rows(found))
        return
    for entity, quotas in found.items():
        parts = [
            f"the default {_TITLES[kind]}" if name is None else f"{_TITLES[kind]} '{name}'"
            for kind, name in parts_of(entity)
        ]
        values = ", ".join(f"{key}={java_double(value)}" for key, value in quotas.items())
        print(f"Quota configs for {', '.join(parts)} are {values}")


async def alter_quotas(
    admin: Admin, entities: Entities, added: Mapping[str, str], removed: Sequence[str]
) -> None:
    """Set and remove quotas of one entity. Raise BadValue, KafkaError."""
    _check_keys(entities, added, removed)
    if any(name is None for _kind, name in entities):
        raise BadValue("Exactly one entity name must be specified for every entity type")
    present = await _quotas(admin, entities)
    known = next(iter(present.values()), {})
    unknown = [key for key in removed if key not in known]
    if unknown:
        raise BadValue(f"Invalid config(s): {','.join(unknown)}")
    changes: dict[str, float | None] = {key: _number(key, text) for key, text in added.items()}
    changes.update(dict.fromkeys(removed))
    named: dict[str, Name] = {kind: name or DEFAULT for kind, name in entities}
    entity = ClientQuotaEntity(named.get("users"), named.get("clients"), named.get("ips"))
    (error,) = (await admin.alter_client_quotas({entity: changes})).values()
    if error is not None:
        raise error


def _check_keys(entities: Entities, added: Mapping[str, str], removed: Sequence[str]) -> None:
    kinds = [kind for kind, _name in entities]
    known = IP_KEYS if kinds == ["ips"] else CLIENT_KEYS
    what = {"ips": "connection quota", "users": "quota or SCRAM credential"}.get(
        ",".join(kinds), "quota"
    )
    for verb, keys in (("added", added), ("deleted", removed)):
        unexpected = [key for key in keys if key not in known]
        if unexpected:
            raise BadValue(
                f"Only {what} configs can be {verb} for '{kinds[-1]}' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unexpected)}"
            )


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadValue(f"Cannot parse quota configuration value for {key}: {text}") from None


async def _quotas(admin: Admin, entities: Entities) -> dict[ClientQuotaEntity, dict[str, float]]:
    components = [
        QuotaComponent(ENTITY_TYPES[kind], DEFAULT if name == "" else name)
        for kind, name in entities
    ]
    return await admin.describe_client_quotas(components, strict=True)
