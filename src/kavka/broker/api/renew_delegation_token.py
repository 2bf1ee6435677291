"""RenewDelegationToken: a later end of a token, up to its maximum (KIP-48)."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.security.delegation_tokens import DelegationTokens
from kavka.broker.security.token_requests import changed
from kavka.core.delegation_tokens import DelegationToken, renewed
from kavka.errors import ErrorCode
from kavka.io import Clock
from kavka.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def handle(
    clock: Clock,
    tokens: DelegationTokens | None,
    context: RequestContext,
    request: RenewDelegationTokenRequest,
) -> RenewDelegationTokenResponse:
    """Renew a token of which the client is owner or renewer."""
    principal = context.session.principal

    def change(token: DelegationToken) -> DelegationToken | ErrorCode:
        assert tokens is not None
        now_ms = clock.now_ms()
        return renewed(token, principal, request.renew_period_ms, now_ms, tokens.limits)

    after = await changed(context, tokens, bytes(request.hmac), change)
    if isinstance(after, ErrorCode):
        return RenewDelegationTokenResponse(error_code=after, expiry_timestamp_ms=-1)
    assert after is not None
    return RenewDelegationTokenResponse(expiry_timestamp_ms=after.expiry_ms)
