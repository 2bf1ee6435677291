"""CreateAcls: new ACLs."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.security.access_control import AccessControl
from kavka.broker.security.acl_requests import NO_AUTHORIZER, acl_store, create, read_binding
from kavka.core.access.entries import AclBinding
from kavka.errors import ErrorCode, error_message
from kavka.wire.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreateAclsResponseResult,
)


async def handle(
    access_control: AccessControl | None, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """Store each ACL, or say why not: INVALID_REQUEST; SECURITY_DISABLED without an authorizer that keeps ACLs."""
    store = acl_store(access_control)
    if store is None:
        refused = CreateAclsResponseResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
        )
        return CreateAclsResponse(results=[refused] * len(request.creations))
    bindings: list[AclBinding | str] = []
    for creation in request.creations:
        bindings.append(read_binding(creation))
        if context.pace.is_over():
            await context.pace.rest()
    failures = await create(store, [b for b in bindings if isinstance(b, AclBinding)], context.pace)
    return CreateAclsResponse(
        results=[
            _refused(ErrorCode.INVALID_REQUEST, binding)
            if isinstance(binding, str)
            else _result(failures.get(binding.pattern))
            for binding in bindings
        ]
    )


def _result(failure: str | None) -> CreateAclsResponseResult:
    if failure is None:
        return CreateAclsResponseResult(error_code=ErrorCode.NONE)
    return _refused(ErrorCode.UNKNOWN_SERVER_ERROR, failure)


def _refused(code: ErrorCode, message: str) -> CreateAclsResponseResult:
    return CreateAclsResponseResult(error_code=code, error_message=error_message(message))
