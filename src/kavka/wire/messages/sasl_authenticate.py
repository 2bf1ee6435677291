"""SaslAuthenticate (key 36)."""

from __future__ import annotations

from kavka.wire.schema import binary, field, i16, i64, message, string


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """The request of SaslAuthenticate."""

    auth_bytes: binary = field()


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """The response of SaslAuthenticate."""

    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)
    auth_bytes: binary = field()
    session_lifetime_ms: i64 = field("1+", ignorable=True)
