"""The common part of requests about delegation tokens: whether a client may ask, and the token that a secret names."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.security.delegation_tokens import Change, DelegationTokens
from kavka.core.delegation_tokens import DelegationToken, may_send_requests
from kavka.errors import ErrorCode


def may_ask(context: RequestContext) -> bool:
    """Return whether the client may ask about tokens, by its listener and its authentication."""
    session = context.session
    return may_send_requests(session.protocol, session.principal, session.token_id)


async def changed(
    context: RequestContext, tokens: DelegationTokens | None, hmac: bytes, change: Change
) -> DelegationToken | ErrorCode | None:
    """Change the token with this secret; return the same as `change`, or why there is no such token."""
    if not may_ask(context):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if tokens is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    token_id = tokens.id_of(hmac)
    if token_id is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    return await tokens.change(token_id, change)
