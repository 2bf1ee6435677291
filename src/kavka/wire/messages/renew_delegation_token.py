"""A longer validity of a delegation token (KIP-48)."""

from __future__ import annotations

from kavka.wire.schema import binary, field, i16, i32, i64, message


@message(api_key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenRequest:
    """Names the token by its secret."""

    hmac: binary = field()
    renew_period_ms: i64 = field()
    """Milliseconds from now on; the broker's default if it is negative."""


@message(api_key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenResponse:
    """The new end of the token."""

    error_code: i16 = field()
    """DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED.
    """
    expiry_timestamp_ms: i64 = field()
    """Milliseconds since 1970."""
    throttle_time_ms: i32 = field()
    """Milliseconds for which a quota delays the client."""
