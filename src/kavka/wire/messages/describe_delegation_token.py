"""Delegation tokens with their owners and renewers (KIP-48, KIP-373)."""

from __future__ import annotations

from kavka.wire.schema import binary, field, i16, i32, i64, message, string, struct


@struct
class DescribeDelegationTokenRequestOwner:
    """A principal whose tokens are asked for: those that it owns, and those that it may renew."""

    principal_type: string = field()
    principal_name: string = field()


@message(api_key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """Asks for tokens."""

    owners: list[DescribeDelegationTokenRequestOwner] | None = field(nullable="0+", default=None)
    """None asks for all that the client may see."""


@struct
class DescribeDelegationTokenResponseRenewer:
    """A principal that may renew and expire the token besides its owner."""

    principal_type: string = field()
    principal_name: string = field()


@struct
class DescribeDelegationTokenResponseToken:
    """A token."""

    principal_type: string = field()
    principal_name: string = field()
    """The owner."""
    token_requester_principal_type: string = field("3+", ignorable=True)
    token_requester_principal_name: string = field("3+", ignorable=True)
    issue_timestamp: i64 = field()
    """Milliseconds since 1970, as both others."""
    expiry_timestamp: i64 = field()
    max_timestamp: i64 = field()
    token_id: string = field()
    hmac: binary = field()
    """The secret of the token."""
    renewers: list[DescribeDelegationTokenResponseRenewer] = field()


@message(api_key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse:
    """The tokens."""

    error_code: i16 = field()
    """DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    tokens: list[DescribeDelegationTokenResponseToken] = field()
    throttle_time_ms: i32 = field()
    """Milliseconds for which a quota delays the client."""
