"""Exchange the tokens of a SASL mechanism (KIP-152, KIP-368)."""

from __future__ import annotations

from kavka.wire.schema import binary, field, i16, i64, message, string


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """A token from the client."""

    auth_bytes: binary = field()
    """As the mechanism defines it; a secret."""


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """A token from the broker."""

    error_code: i16 = field()
    """SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE."""
    error_message: string | None = field(nullable="0+", default=None)
    auth_bytes: binary = field()
    """As the mechanism defines it; a secret."""
    session_lifetime_ms: i64 = field("1+", ignorable=True)
    """After which the client must authenticate again, milliseconds; 0 for never (KIP-368)."""
