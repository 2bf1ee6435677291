"""Objects of `kavka configs`, `acls` and `delegation-tokens`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kavka.cli.arguments.config_entries import source_name
from kavka.cli.json_lines.lines import Row
from kavka.client.admin import ScramCredentialInfo
from kavka.client.admin.acls import AclEntry, ResourcePattern
from kavka.client.admin.configs import ConfigEntry
from kavka.client.admin.delegation_tokens import DelegationToken
from kavka.client.admin.quotas import ClientQuotaEntity
from kavka.core.quota.alterations import parts_of

Entity = Mapping[str, str | None]
"""The parts of an entity by type; None is the default of all."""


def config_rows(entity: Entity, entries: Iterable[ConfigEntry]) -> list[Row]:
    """Return the settings of an entity as a broker describes them."""
    return [
        {
            "kind": "config",
            "entity": entity,
            "name": entry.name,
            "value": entry.value,
            "source": source_name(entry.source),
            "sensitive": entry.is_sensitive,
            "read_only": entry.is_read_only,
            "synonyms": [
                {"name": each.name, "value": each.value, "source": source_name(each.source)}
                for each in entry.synonyms
            ],
        }
        for entry in entries
    ]


def stored_config_row(entity: Entity, name: str, value: str | None) -> Row:
    """Return a setting as the registry holds it; None is one that is secret."""
    return {
        "kind": "config",
        "entity": entity,
        "name": name,
        "value": value,
        "source": None,
        "sensitive": value is None,
        "read_only": None,
        "synonyms": [],
    }


def quota_rows(found: Mapping[ClientQuotaEntity, Mapping[str, float]]) -> list[Row]:
    """Return quotas by entity."""
    return [
        {"kind": "quota", "entity": dict(parts_of(entity)), "quotas": dict(quotas)}
        for entity, quotas in found.items()
    ]


def credential_rows(user: str, credentials: Iterable[ScramCredentialInfo]) -> list[Row]:
    """Return the credentials of a user, without what they are made of."""
    return [
        {
            "kind": "credential",
            "entity": {"user": user},
            "mechanism": str(each.mechanism),
            "iterations": each.iterations,
        }
        for each in credentials
    ]


def altered_row(entity: Entity, added: Iterable[str], removed: Iterable[str]) -> Row:
    """Return what was changed: names alone, for values may be secret."""
    return {"kind": "altered", "entity": entity, "set": list(added), "deleted": list(removed)}


def acl_rows(bindings: Mapping[ResourcePattern, Sequence[AclEntry]]) -> list[Row]:
    """Return ACLs, those of a resource together."""
    return [
        {
            "resource_type": pattern.resource_type.name,
            "resource_name": pattern.name,
            "pattern_type": pattern.pattern_type.name,
            "principal": entry.principal,
            "host": entry.host,
            "operation": entry.operation.name,
            "permission": entry.permission.name,
        }
        for pattern, entries in sorted(bindings.items())
        for entry in entries
    ]


def token_rows(tokens: Iterable[DelegationToken]) -> list[Row]:
    """Return tokens with what logs in by them."""
    return [
        {
            "token_id": token.token_id,
            "hmac": token.password,
            "owner": str(token.owner),
            "requester": str(token.requester),
            "renewers": [str(renewer) for renewer in token.renewers],
            "issue_ms": token.issue_ms,
            "expiry_ms": token.expiry_ms,
            "max_ms": token.max_ms,
        }
        for token in tokens
    ]
