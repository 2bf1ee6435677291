"""Access control in tests: connections with a principal, ACLs in short texts."""

from __future__ import annotations

from typing import Any

from kavka.broker.requests.session import Principal
from kavka.core.access.entries import AclBinding, AclEntry, ResourcePattern
from kavka.core.access.names import (
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    titled,
)
from kavka.net.peer import Peer
from kavka.wire.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from support.one_broker import Served

AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
SETTINGS = {"authorizer__class__name": AUTHORIZER, "super__users": "User:ANONYMOUS"}
"""Of a broker whose clients may do everything until they have another principal."""


def acl(text: str) -> AclBinding:
    """Return the ACL of `[deny] User:alice[@host] Read Topic:orders` (`Topic:or*` is a prefix, `Topic:*` all)."""
    words = text.split()
    permission = AclPermission.DENY if words[0] == "deny" else AclPermission.ALLOW
    who, operation, resource = words[-3:]
    principal, _at, host = who.partition("@")
    kind, _colon, name = resource.partition(":")
    is_prefix = name.endswith("*") and name != "*"
    pattern = ResourcePattern(
        titled(AclResourceType, kind),
        name.removesuffix("*") if is_prefix else name,
        PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
    )
    return AclBinding(
        pattern, AclEntry(principal, host or "*", titled(AclOperation, operation), permission)
    )


def creation(binding: AclBinding) -> CreateAclsRequestCreation:
    """Return what CreateAcls has of an ACL."""
    pattern, entry = binding
    return CreateAclsRequestCreation(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        resource_pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


async def create_acls(served: Served | Peer, *texts: str) -> list[int]:
    """Create ACLs; return the error code of each."""
    request = CreateAclsRequest(creations=[creation(acl(text)) for text in texts])
    return [result.error_code for result in (await served.send(request)).results]


async def connected_as(served: Served, user: str) -> Any:
    """Connect once more, as this user, as if by SASL: of delegation tokens nothing is said through PLAINTEXT."""
    other = await served.another()
    connections = served.broker.dispatcher.connections
    state = list(connections.values())[-1]
    state.session.principal = Principal("User", user)
    state.session.protocol = "SASL_PLAINTEXT"
    return other
