"""DeleteAcls: the removal of the ACLs that filters choose."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Slices
from kavka.broker.security.access_control import AccessControl
from kavka.broker.security.acl_requests import (
    NO_AUTHORIZER,
    Deleted,
    acl_store,
    delete,
    read_filter,
)
from kavka.core.access.entries import AclFilter
from kavka.errors import ErrorCode, error_message
from kavka.wire.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseFilterResult,
    DeleteAclsResponseMatchingAcl,
)


async def handle(
    slices: Slices,
    access_control: AccessControl | None,
    context: RequestContext,
    request: DeleteAclsRequest,
) -> DeleteAclsResponse:
    """Remove ACLs, each for the first filter that chooses it; SECURITY_DISABLED as with CreateAcls."""
    store = acl_store(access_control)
    if store is None:
        refused = DeleteAclsResponseFilterResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
        )
        return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
    filters: list[AclFilter | str] = []
    for one in request.filters:
        filters.append(read_filter(one, version=context.version))
        if context.pace.is_over():
            await context.pace.rest()
    usable = [each for each in filters if isinstance(each, AclFilter)]
    deleted = iter(await delete(store, usable, slices.pace()))
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsResponseFilterResult(
                error_code=ErrorCode.INVALID_REQUEST, error_message=error_message(each)
            )
            if isinstance(each, str)
            else DeleteAclsResponseFilterResult(matching_acls=[_row(row) for row in next(deleted)])
            for each in filters
        ]
    )


def _row(deleted: Deleted) -> DeleteAclsResponseMatchingAcl:
    (pattern, entry), failure = deleted
    code = ErrorCode.NONE if failure is None else ErrorCode.UNKNOWN_SERVER_ERROR
    return DeleteAclsResponseMatchingAcl(
        error_code=code,
        error_message=failure and error_message(failure),
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
