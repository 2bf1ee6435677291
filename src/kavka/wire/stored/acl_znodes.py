"""Paths and payloads of the znodes that hold ACLs, and of those that say which have changed.

    /kafka-acl/<Type>/<name>                        the ACLs of a resource, and of `*`
    /kafka-acl-extended/prefixed/<Type>/<name>      the ACLs of all resources that begin with a name
    /kafka-acl-changes/acl_changes_NNNNNNNNNN       `TOPIC:name`: ACLs of a literal pattern have changed
    /kafka-acl-extended-changes/acl_changes_NNN...  the same of a prefixed pattern, as JSON

Source: protocol of `kafka.zk.ZkAclStore` and `kafka.security.authorizer.AclEntry`. Decoders raise ValueError, KeyError,
TypeError or AttributeError for what does not fit. They know nothing of what an operation may do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

ROOTS: Final = {False: "/kafka-acl", True: "/kafka-acl-extended/prefixed"}
"""By whether patterns are prefixes."""
CHANGES: Final = {False: "/kafka-acl-changes", True: "/kafka-acl-extended-changes"}
"""By whether patterns are prefixes."""
CHANGE_NAME: Final = "acl_changes_"
"""The beginning of the name of each notification; the number follows."""
RESOURCE_TYPES: Final = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")


class AclRow(NamedTuple):
    """An ACL of a pattern in the texts of its znode, `Allow` and `DescribeConfigs` say."""

    principal: str
    permission: str
    operation: str
    host: str


class AclChange(NamedTuple):
    """A pattern with changed ACLs; `resource_type` is Java's constant, TRANSACTIONAL_ID say."""

    resource_type: str
    name: str
    is_prefixed: bool


def all_paths() -> list[str]:
    """Return the paths that are there before the first ACL."""
    types = [f"{root}/{name}" for root in ROOTS.values() for name in RESOURCE_TYPES]
    return [*types, *CHANGES.values()]


def acl_path(resource_type: str, name: str, *, is_prefixed: bool) -> str:
    """Return the znode of a pattern; the type is as in `RESOURCE_TYPES`."""
    return f"{ROOTS[is_prefixed]}/{resource_type}/{name}"


def encode_acls(rows: Iterable[AclRow]) -> bytes:
    """Return version 1 of the payload."""
    acls = [
        {
            "principal": row.principal,
            "permissionType": row.permission,
            "operation": row.operation,
            "host": row.host,
        }
        for row in rows
    ]
    return json.dumps({"version": 1, "acls": acls}, separators=(",", ":")).encode()


def decode_acls(data: bytes) -> list[AclRow]:
    """Read the payload; a node without data has no ACLs."""
    if not data:
        return []
    fields = json.loads(data)
    if fields["version"] != 1:
        raise ValueError(f"ACLs of version {fields['version']!r}, which is not known")
    rows = []
    for acl in fields["acls"]:
        row = AclRow(acl["principal"], acl["permissionType"], acl["operation"], acl["host"])
        if not all(isinstance(text, str) for text in row):
            raise TypeError(f"an ACL that is not of texts: {acl!r}")
        rows.append(row)
    return rows


def encode_change(change: AclChange) -> bytes:
    """Return the payload of a notification."""
    if not change.is_prefixed:
        return f"{change.resource_type}:{change.name}".encode()
    fields = {
        "version": 1,
        "resourceType": change.resource_type,
        "name": change.name,
        "patternType": "PREFIXED",
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_change(data: bytes, *, is_prefixed: bool) -> AclChange:
    """Read the payload of a notification."""
    if is_prefixed:
        fields = json.loads(data)
        is_prefix = fields["patternType"].upper() == "PREFIXED"
        return AclChange(str(fields["resourceType"]), str(fields["name"]), is_prefix)
    kind, colon, name = data.decode().partition(":")
    if not colon:
        raise ValueError(f"expected ResourceType:ResourceName but got {kind!r}")
    return AclChange(kind, name, is_prefixed=False)
