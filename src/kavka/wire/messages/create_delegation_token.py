"""A new delegation token (KIP-48, KIP-373)."""

from __future__ import annotations

from kavka.wire.schema import binary, field, i16, i32, i64, message, string, struct


@struct
class CreateDelegationTokenRequestRenewer:
    """A principal that may renew and expire the token besides its owner."""

    principal_type: string = field()
    principal_name: string = field()


@message(api_key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenRequest:
    """Asks for a token."""

    owner_principal_type: string | None = field("3+", nullable="3+", default=None)
    owner_principal_name: string | None = field("3+", nullable="3+", default=None)
    """Owner of the token; without a name it is the client."""
    renewers: list[CreateDelegationTokenRequestRenewer] = field()
    max_lifetime_ms: i64 = field()
    """Milliseconds; the longest that the broker allows if it is not positive."""


@message(api_key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenResponse:
    """The token."""

    error_code: i16 = field()
    """DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED, INVALID_PRINCIPAL_TYPE.
    """
    principal_type: string = field()
    principal_name: string = field()
    """The owner."""
    token_requester_principal_type: string = field("3+", ignorable=True)
    token_requester_principal_name: string = field("3+", ignorable=True)
    issue_timestamp_ms: i64 = field()
    """Milliseconds since 1970, as both others."""
    expiry_timestamp_ms: i64 = field()
    """Until then it is valid, unless it is renewed."""
    max_timestamp_ms: i64 = field()
    """Beyond that it cannot be renewed."""
    token_id: string = field()
    hmac: binary = field()
    """The secret of the token."""
    throttle_time_ms: i32 = field()
    """Milliseconds for which a quota delays the client."""
