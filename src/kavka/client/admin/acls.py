"""ACLs: the operations that principals may do with resources (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kavka.client import arguments
from kavka.client.admin.router import Router, refusal
from kavka.core.access.entries import AclBinding, AclEntry, AclFilter, ResourcePattern
from kavka.core.access.names import (
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    numbered,
)
from kavka.errors import KafkaError
from kavka.net.peer import Peer
from kavka.wire.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    CreateAclsResponse,
)
from kavka.wire.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsRequestFilter,
    DeleteAclsResponse,
)
from kavka.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

__all__ = [
    "AclBinding",
    "AclEntry",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "AclResourceType",
    "PatternType",
    "ResourcePattern",
    "create_acls",
    "delete_acls",
    "describe_acls",
]


_NOT_ASKED = -(2**31)


def authorized_operations(bits: int) -> frozenset[AclOperation] | None:
    """Return the operations of a bit field (KIP-430), None where the broker has not said them."""
    if bits == _NOT_ASKED:
        return None
    return frozenset(operation for operation in AclOperation if bits >> operation & 1)


async def describe_acls(
    router: Router, chosen: AclFilter, timeout_ms: int | None
) -> list[AclBinding]:
    """See `Admin.describe_acls`."""
    arguments.one("chosen", chosen, AclFilter)

    def build(_peer: Peer) -> tuple[Any, int | None]:
        return DescribeAclsRequest(**_filter(chosen)), None

    response: DescribeAclsResponse = await router.any(build, lambda a: (a.error_code,), timeout_ms)
    refused = refusal(response.error_code, response.error_message)
    if refused is not None:
        raise refused
    return [_binding(resource, entry) for resource in response.resources for entry in resource.acls]


async def create_acls(
    router: Router, bindings: Iterable[AclBinding], timeout_ms: int | None
) -> dict[AclBinding, KafkaError | None]:
    """See `Admin.create_acls`."""
    wanted = list(dict.fromkeys(arguments.each("bindings", bindings, AclBinding)))
    request = CreateAclsRequest(creations=[_creation(binding) for binding in wanted])
    response: CreateAclsResponse = await router.any(
        lambda _peer: (request, None), lambda a: [row.error_code for row in a.results], timeout_ms
    )
    return {
        binding: refusal(row.error_code, row.error_message)
        for binding, row in zip(wanted, response.results, strict=True)
    }


async def delete_acls(
    router: Router, filters: Sequence[AclFilter], timeout_ms: int | None
) -> list[list[AclBinding] | KafkaError]:
    """See `Admin.delete_acls`."""
    filters = arguments.each("filters", filters, AclFilter)
    request = DeleteAclsRequest(filters=[DeleteAclsRequestFilter(**_filter(f)) for f in filters])
    response: DeleteAclsResponse = await router.any(
        lambda _peer: (request, None),
        lambda a: [row.error_code for row in a.filter_results],
        timeout_ms,
    )
    return [_deleted(result) for result in response.filter_results]


def _deleted(result: Any) -> list[AclBinding] | KafkaError:
    """Return what a filter removed, or the first error."""
    refused = refusal(result.error_code, result.error_message)
    for row in result.matching_acls:
        refused = refused or refusal(row.error_code, row.error_message)
    return refused or [_binding(row, row) for row in result.matching_acls]


def _filter(chosen: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": chosen.resource_type,
        "resource_name_filter": chosen.name,
        "pattern_type_filter": chosen.pattern_type,
        "principal_filter": chosen.principal,
        "host_filter": chosen.host,
        "operation": chosen.operation,
        "permission_type": chosen.permission,
    }


def _creation(binding: AclBinding) -> CreateAclsRequestCreation:
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


def _binding(resource: Any, entry: Any) -> AclBinding:
    """Return the ACL of a row, or of a row of one message and another of its resource."""
    return AclBinding(
        ResourcePattern(
            numbered(AclResourceType, resource.resource_type),
            resource.resource_name,
            numbered(PatternType, resource.pattern_type),
        ),
        AclEntry(
            entry.principal,
            entry.host,
            numbered(AclOperation, entry.operation),
            numbered(AclPermission, entry.permission_type),
        ),
    )
