"""CreateDelegationToken: a token for the client, or for another user (KIP-48, KIP-373)."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.session import AclOperation, AclResourceType, Principal
from kavka.broker.security.delegation_tokens import DelegationTokens
from kavka.broker.security.token_requests import may_ask
from kavka.core.delegation_tokens import created, refusal_of_creation
from kavka.errors import ErrorCode
from kavka.ids import uuid_text
from kavka.io import Clock, Random
from kavka.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

_ID_BYTES = 16
_MAX_RENEWERS = 10_000
"""Of a token: it is encoded at once, while every other client waits."""


async def handle(
    clock: Clock,
    random: Random,
    tokens: DelegationTokens | None,
    context: RequestContext,
    request: CreateDelegationTokenRequest,
) -> CreateDelegationTokenResponse:
    """Make a token with a random id; any broker may."""
    requester = context.session.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    renewers = await _renewers(context, request)
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    response.error_code = _refusal(context, owner, renewers)
    if response.error_code:
        return response
    if tokens is None:
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return response
    if len(request.renewers) > _MAX_RENEWERS:
        response.error_code = ErrorCode.INVALID_REQUEST
        return response
    token = created(
        uuid_text(random.random_bytes(_ID_BYTES)),
        owner,
        requester,
        renewers,
        max_lifetime_ms=request.max_lifetime_ms,
        now_ms=clock.now_ms(),
        limits=tokens.limits,
    )
    response.error_code = await tokens.create(token)
    if not response.error_code:
        response.issue_timestamp_ms = token.issue_ms
        response.expiry_timestamp_ms = token.expiry_ms
        response.max_timestamp_ms = token.max_ms
        response.token_id = token.token_id
        response.hmac = tokens.hmac_of(token.token_id)
    return response


async def _renewers(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> list[Principal]:
    """Return the renewers of a request; one more than the maximum stands for all further ones."""
    renewers = []
    for each in request.renewers[: _MAX_RENEWERS + 1]:
        renewers.append(Principal(each.principal_type, each.principal_name))
        if context.pace.is_over():
            await context.pace.rest()
    return renewers


def _refusal(context: RequestContext, owner: Principal, renewers: list[Principal]) -> ErrorCode:
    """Return NONE if the client may have a token of `owner`."""
    if not may_ask(context):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

    def may_create_for(other: Principal) -> bool:
        return context.allows(AclOperation.CREATE_TOKENS, AclResourceType.USER, str(other))

    return refusal_of_creation(owner, context.session.principal, renewers, may_create_for)
