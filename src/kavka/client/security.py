"""The security of a client's connections, from its settings.

security.protocol    PLAINTEXT, or SASL_PLAINTEXT: SASL by `client.sasl`
"""

from __future__ import annotations

from kavka.client.config import Config
from kavka.io import Clock, Random
from kavka.net.peer_security import PeerSecurity


def peer_security(config: Config, clock: Clock, random: Random) -> PeerSecurity:
    """Return the security of the connections. Raise InvalidSetting, which shows no secret."""
    protocol = config.text("security.protocol").upper()
    sasl = None
    if protocol.startswith("SASL_"):
        from kavka.client.sasl import sasl_login  # only where it is used

        sasl = sasl_login(config, clock, random)
    return PeerSecurity(sasl=sasl)
