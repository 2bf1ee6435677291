"""The settings of a broker and of its clients with TLS, over certificates in a directory of a test's own."""

from __future__ import annotations

from pathlib import Path

from kavka.net.peer_security import PeerSecurity
from kavka.net.tls.client import ReloadableClientTls
from kavka.net.tls.settings import parse_settings
from support.certificates import Authority, Signed


class TlsFiles:
    """An authority, a broker's certificate, and a client's, as PEM files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority()
        self.trust = self.authority.write_pem(directory / "ca.pem")
        self.broker = self.write("broker.pem", self.authority.sign("broker"))
        self.client = self.write("client.pem", self.authority.sign("alice", hosts=()))

    def write(self, name: str, signed: Signed) -> str:
        return signed.write_pem(self.directory / name)

    def broker_settings(self, *, client_auth: str = "none", **more: str) -> dict[str, str]:
        """Return settings of a broker with one listener; names have `__` for dots."""
        return {
            "listeners": "SSL://127.0.0.1:0",
            "security__inter__broker__protocol": "SSL",
            "ssl__keystore__type": "PEM",
            "ssl__keystore__location": self.broker,
            "ssl__truststore__type": "PEM",
            "ssl__truststore__location": self.trust,
            "ssl__client__auth": client_auth,
            **more,
        }

    def client_settings(self, *, certificate: str | None = None) -> dict[str, str]:
        """Return settings of a client, by default without a certificate of its own."""
        own = (
            {}
            if certificate is None
            else {"ssl.keystore.type": "PEM", "ssl.keystore.location": certificate}
        )
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trust,
            "ssl.endpoint.identification.algorithm": "https",
            **own,
        }

    def security(self, *, certificate: str | None = None) -> PeerSecurity:
        """Return the security of connections to the broker."""
        settings = parse_settings(self.client_settings(certificate=certificate).get)
        return PeerSecurity(ReloadableClientTls(settings, "test"))
