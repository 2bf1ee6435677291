"""The security of a client's connections to brokers, by `security.protocol`.

SSL, SASL_SSL               TLS by `client.tls_settings`
SASL_PLAINTEXT, SASL_SSL    SASL by `client.sasl`
"""

from __future__ import annotations

from kavka.client.config import Config
from kavka.client.tls_settings import client_tls
from kavka.io import Clock, Random
from kavka.net.peer_security import PLAINTEXT, PeerSecurity


def peer_security(config: Config, clock: Clock, random: Random) -> PeerSecurity:
    """Return the security of all connections of a client. Raise InvalidSetting, which shows no secret."""
    protocol = config.text("security.protocol").upper()
    if protocol == "PLAINTEXT":
        return PLAINTEXT
    tls = client_tls(config.value, config.text("client.id")) if protocol.endswith("SSL") else None
    sasl = None
    if protocol.startswith("SASL_"):
        from kavka.client.sasl import sasl_login  # only where it is used

        sasl = sasl_login(config, clock, random)
    return PeerSecurity(tls, sasl)
