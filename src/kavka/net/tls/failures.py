"""Failed handshakes, in words that say what to do."""

from __future__ import annotations

import ssl
from typing import Final

from kavka.net.peer_security import TlsHandshakeFailed
from kavka.values import frozen


@frozen
class OtherEnd:
    """The words for the other end of a connection that this process makes, and for the settings of this end."""

    name: str
    prefix: str
    """The beginning of `ssl.keystore.location` and the others."""
    not_for_tls: str
    """The sentence about a port that is not for TLS, with advice."""


BROKER: Final = OtherEnd(
    "broker",
    "",
    "the broker's listener is not for TLS: use security.protocol=PLAINTEXT (or SASL_PLAINTEXT), or another port",
)
ZOOKEEPER: Final = OtherEnd(
    "ZooKeeper server",
    "zookeeper.",
    "the port is not for TLS: name secureClientPort in zookeeper.connect, or set zookeeper.ssl.client.enable=false",
)

CLOSED_LATER: Final = (
    "the client closed the connection: does it trust the issuer of this certificate, and its host?"
)
"""Many clients, among them those in Python, give no reason."""
_OF_SERVER: Final = {
    "HTTP_REQUEST": "the client speaks HTTP",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, and ssl.client.auth is required",
    "UNSUPPORTED_PROTOCOL": "the client offers no version of TLS that is enabled here",
    "NO_SHARED_CIPHER": "the client offers no cipher suite that is enabled here",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the issuer of this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept this broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this broker's certificate has expired, says the client",
    "EXCESSIVE_MESSAGE_SIZE": "the client sent a message that is too long for a handshake",
}
_NOT_ACCEPTED: Final = (
    "the {end} does not accept the client's certificate, or asks for one ({ssl}keystore.location)"
)
"""Java's servers say the same of a certificate that they refuse and of one that is missing."""
_OF_CLIENT: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the {end} asks for a certificate of the client: set {ssl}keystore.location",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the {end} refuses the handshake: it may ask for a certificate of the client "
    "({ssl}keystore.location), or for other cipher suites",
    "TLSV1_ALERT_UNKNOWN_CA": "the {end} does not trust the issuer of the client's certificate "
    "({ssl}keystore.location)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client's certificate has expired, says the {end}",
    "SSLV3_ALERT_BAD_CERTIFICATE": _NOT_ACCEPTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _NOT_ACCEPTED,
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "the {end} does not accept the client's certificate for its purpose",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the {end} offers no version of TLS that is enabled here ({ssl}enabled.protocols)",
    "UNSUPPORTED_PROTOCOL": "the {end} offers no version of TLS that is enabled here ({ssl}enabled.protocols)",
}


class ClosedInHandshake(ConnectionError):
    """The other end closed the connection during a handshake, without a reason.

    It may be stopping, or not be there behind a proxy: that can change.
    """

    def __init__(self, address: str, end: OtherEnd = BROKER) -> None:
        """Name the address, and a likely cause."""
        super().__init__(
            f"{address} closed the connection during the TLS handshake; perhaps {end.not_for_tls}"
        )


def server_reason(error: Exception) -> str:
    """Return why the handshake of a client failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return CLOSED_LATER
    return _sentence(error, _OF_SERVER)


def client_failure(error: ssl.SSLError, address: str, end: OtherEnd = BROKER) -> ConnectionError:
    """Return the error of a handshake that this process began, which names the problem of the certificate if any."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = _remedy(error.verify_code, end.prefix)
        reason = f"the certificate of the {end.name} is refused: {error.verify_message}{remedy}"
        return TlsHandshakeFailed(f"TLS handshake with {address} failed: {reason}")
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return ClosedInHandshake(address, end)
    reason = _sentence(error, {"WRONG_VERSION_NUMBER": end.not_for_tls, **_OF_CLIENT})
    reason = reason.format(end=end.name, ssl=f"{end.prefix}ssl.")
    return TlsHandshakeFailed(f"TLS handshake with {address} failed: {reason}")


def _sentence(error: Exception, sentences: dict[str, str]) -> str:
    reason: str | None = getattr(error, "reason", None)
    if reason is None:
        return str(error)
    return sentences.get(reason) or reason.replace("_", " ").lower()


_UNTRUSTED: Final = (2, 18, 19, 20, 21)
"""OpenSSL's codes of a chain that does not end in a trusted certificate."""
_WRONG_HOST: Final = (62, 64)


def _remedy(code: int, prefix: str) -> str:
    if code in _UNTRUSTED:
        return f" (is its issuer in {prefix}ssl.truststore.location?)"
    if code in _WRONG_HOST:
        return f" ({prefix}ssl.endpoint.identification.algorithm)"
    return ""
