"""SaslHandshake (key 17)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, message, string


@message(api_key=17, versions="0-1")
class SaslHandshakeRequest:
    """The request of SaslHandshake."""

    mechanism: string = field()


@message(api_key=17, versions="0-1")
class SaslHandshakeResponse:
    """The response of SaslHandshake."""

    error_code: i16 = field()
    mechanisms: list[string] = field()
