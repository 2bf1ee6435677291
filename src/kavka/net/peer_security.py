"""The security of connections to brokers, on the side that connects: TLS below the frames, SASL as the first frames.

One object serves all connections of a client, or of a broker to the others; `Peer.connect` obeys it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from kavka.values import frozen

if TYPE_CHECKING:
    from kavka.io import ClientTls


class TlsHandshakeFailed(ConnectionError):
    """The two ends did not agree on TLS: a certificate is refused or missing, or they have no version in common.

    The same connection would fail again until a certificate or a setting is changed.
    """


class Negotiated(Protocol):
    """A connection whose versions are negotiated, as a SASL exchange uses it: a `Peer`."""

    @property
    def is_closed(self) -> bool:
        """Return whether the connection is closed for sending."""
        ...

    def version_of(self, api_key: int, newest: int | None = None) -> int:
        """Return the newest version that both sides know. Raise KafkaError UNSUPPORTED_VERSION."""
        ...

    async def send(self, request: Any, version: int | None = None, timeout_ms: int = 30_000) -> Any:
        """Return the response to a request. Raise OSError, KafkaError and CorruptFrame."""
        ...


class SaslLogin(Protocol):
    """The SASL exchange of connections to brokers."""

    async def authenticate(self, peer: Negotiated, host: str, timeout_ms: int) -> int:
        """Authenticate a connection whose versions are negotiated, first or again (KIP-368).

        Return the milliseconds after which to do so again; 0 is never. Raise AuthenticationFailed, or OSError.
        """
        ...


@frozen
class PeerSecurity:
    """TLS and SASL of connections: neither with PLAINTEXT, both with SASL_SSL."""

    tls: ClientTls | None = None
    sasl: SaslLogin | None = None


PLAINTEXT: Final = PeerSecurity()
"""No encryption, and no authentication."""
