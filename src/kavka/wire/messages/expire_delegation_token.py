"""Another end of a delegation token, or its removal (KIP-48)."""

from __future__ import annotations

from kavka.wire.schema import binary, field, i16, i32, i64, message


@message(api_key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """Names the token by its secret."""

    hmac: binary = field()
    expiry_time_period_ms: i64 = field()
    """Milliseconds from now on; the token is removed at once if it is negative."""


@message(api_key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    """The new end of the token."""

    error_code: i16 = field()
    """DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED.
    """
    expiry_timestamp_ms: i64 = field()
    """Milliseconds since 1970."""
    throttle_time_ms: i32 = field()
    """Milliseconds for which a quota delays the client."""
