"""The security of a client's connections to brokers, by `security.protocol`."""

from __future__ import annotations

from kavka.client.config import Config
from kavka.client.tls_settings import client_tls
from kavka.net.peer_security import PLAINTEXT, PeerSecurity


def peer_security(config: Config) -> PeerSecurity:
    """Return the security of all connections of a client. Raise InvalidSetting: a store cannot be used, say."""
    protocol = config.text("security.protocol").upper()
    if protocol == "PLAINTEXT":
        return PLAINTEXT
    tls = client_tls(config.value, config.text("client.id")) if protocol.endswith("SSL") else None
    return PeerSecurity(tls)
