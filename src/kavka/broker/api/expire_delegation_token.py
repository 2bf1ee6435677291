"""ExpireDelegationToken: another end of a token, or its removal (KIP-48)."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.security.delegation_tokens import DelegationTokens
from kavka.broker.security.token_requests import changed
from kavka.core.delegation_tokens import DelegationToken, ended
from kavka.errors import ErrorCode
from kavka.io import Clock
from kavka.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


async def handle(
    clock: Clock,
    tokens: DelegationTokens | None,
    context: RequestContext,
    request: ExpireDelegationTokenRequest,
) -> ExpireDelegationTokenResponse:
    """End a token of which the client is owner or renewer. Connections that are authenticated by it stay."""
    principal = context.session.principal

    def change(token: DelegationToken) -> DelegationToken | ErrorCode | None:
        return ended(token, principal, request.expiry_time_period_ms, clock.now_ms())

    after = await changed(context, tokens, bytes(request.hmac), change)
    if isinstance(after, ErrorCode):
        return ExpireDelegationTokenResponse(error_code=after, expiry_timestamp_ms=-1)
    expiry_ms = clock.now_ms() if after is None else after.expiry_ms
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
