"""Choose a SASL mechanism (KIP-43, KIP-152)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, message, string


@message(api_key=17, versions="0-1")
class SaslHandshakeRequest:
    """Names the mechanism. After version 0 raw tokens follow, after version 1 SaslAuthenticate requests."""

    mechanism: string = field()
    """Such as PLAIN or SCRAM-SHA-256."""


@message(api_key=17, versions="0-1")
class SaslHandshakeResponse:
    """Result of choosing a SASL mechanism."""

    error_code: i16 = field()
    """UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE."""
    mechanisms: list[string] = field()
    """Mechanisms that the broker offers."""
