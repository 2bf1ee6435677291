"""SASL_SSL for real brokers of either kind: certificates, users, and the settings of each side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kavka.net.clock import SystemRandom
from kavka.net.peer_security import PeerSecurity
from kavka.net.sasl_login import password_login
from kavka.net.tls.client import ReloadableClientTls
from kavka.net.tls.settings import parse_settings
from kavka_compat.apache import write_properties
from support.certificates import Authority

_PACKAGE = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
}


class Secured:
    """The security of one cluster. Users' passwords are in `passwords`, which a test may change."""

    def __init__(
        self,
        directory: Path,
        passwords: Mapping[str, str],
        mechanism: str = "SCRAM-SHA-512",
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
    ) -> None:
        """Make an authority and the certificate of all brokers. SCRAM's users are not made here."""
        self._hosts = hosts
        self.directory = directory
        self.passwords = dict(passwords)
        self.mechanism = mechanism
        self.authority = Authority()
        self.trust = self.authority.write_pem(directory / "ca.pem")
        self.key_store = self.renew()

    def renew(self) -> str:
        """Write another certificate of the brokers in the place of the one before; return the file."""
        path = self.directory / "broker.pem"
        self.authority.sign("broker", hosts=self._hosts).write_pem(path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
        return str(path)

    def broker_settings(self, user: str, password: str | None = None) -> dict[str, str]:
        """Return the settings of a broker that has one listener, SASL_SSL, and that is a user itself."""
        others = "".join(f' user_{name}="{text}"' for name, text in self.passwords.items())
        jaas = self._jaas(user, password or self.passwords[user])
        if self.mechanism == "PLAIN":
            jaas = jaas.replace(";", f"{others};")
        return {
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": self.mechanism,
            "sasl.mechanism.inter.broker.protocol": self.mechanism,
            f"listener.name.sasl_ssl.{self.mechanism.lower()}.sasl.jaas.config": jaas,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.key_store,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trust,
        }

    def librdkafka(self, user: str) -> dict[str, str]:
        """Return a client's settings by librdkafka's names."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "sasl.username": user,
            "sasl.password": self.passwords[user],
            "ssl.ca.location": self.trust,
        }

    def java(self, user: str) -> dict[str, str]:
        """Return a client's settings by Java's names."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": self._jaas(user, self.passwords[user]),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trust,
        }

    def properties(self, user: str, **more: str) -> str:
        """Write a client's settings for tools; return the file."""
        path = self.directory / f"{user}.properties"
        return str(write_properties(path, {**self.java(user), **more}))

    def peer(self, user: str) -> PeerSecurity:
        """Return the security of single connections."""
        settings: Any = self.java(user)
        settings["ssl.endpoint.identification.algorithm"] = "https"
        return PeerSecurity(
            ReloadableClientTls(parse_settings(settings.get), "test"),
            password_login(self.mechanism, user, self.passwords[user], SystemRandom()),
        )

    def _jaas(self, user: str, password: str) -> str:
        return f'{_MODULES[self.mechanism]} required username="{user}" password="{password}";'
