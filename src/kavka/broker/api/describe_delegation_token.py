"""DescribeDelegationToken: the tokens that the client owns, may renew, or may see by ACLs (KIP-48, KIP-373)."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Slices
from kavka.broker.requests.session import AclOperation, AclResourceType, Principal
from kavka.broker.security.delegation_tokens import DelegationTokens
from kavka.broker.security.token_requests import may_ask
from kavka.core.delegation_tokens import DelegationToken, is_shown
from kavka.errors import ErrorCode
from kavka.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribeDelegationTokenResponseRenewer,
    DescribeDelegationTokenResponseToken,
)


async def handle(
    slices: Slices,
    tokens: DelegationTokens | None,
    context: RequestContext,
    request: DescribeDelegationTokenRequest,
) -> DescribeDelegationTokenResponse:
    """Answer with tokens and their secrets; with none for an empty list of owners."""
    pace = slices.pace()
    if not may_ask(context):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return DescribeDelegationTokenResponse(error_code=code)
    if tokens is None:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners: set[Principal] | None = None
    if request.owners is not None:
        owners = set()
        for owner in request.owners:
            owners.add(Principal(owner.principal_type, owner.principal_name))
            if pace.is_over():
                await pace.rest()

    def may_see(token: DelegationToken) -> bool:
        return context.allows(
            AclOperation.DESCRIBE,
            AclResourceType.DELEGATION_TOKEN,
            token.token_id,
            is_asked=False,
        ) or context.allows(
            AclOperation.DESCRIBE_TOKENS,
            AclResourceType.USER,
            str(token.owner),
            is_asked=False,
        )

    response = DescribeDelegationTokenResponse()
    for token in tokens:
        if is_shown(token, context.session.principal, owners, may_see):
            response.tokens.append(_row(tokens, token))
        if pace.is_over():
            await pace.rest()
    return response


def _row(tokens: DelegationTokens, token: DelegationToken) -> DescribeDelegationTokenResponseToken:
    return DescribeDelegationTokenResponseToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=tokens.hmac_of(token.token_id),
        renewers=[
            DescribeDelegationTokenResponseRenewer(principal_type=r.type, principal_name=r.name)
            for r in token.renewers
        ],
    )
