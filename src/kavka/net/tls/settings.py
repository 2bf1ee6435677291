"""The settings of TLS, `ssl.*`, as brokers, clients and tools have them: one value for each end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kavka.settings.declaration import InvalidSetting
from kavka.values import frozen

TYPES: Final = ("JKS", "PKCS12", "PEM")


class InvalidStore(InvalidSetting):
    """A key or trust store that cannot be used; the message names the setting, the file and the reason."""


@frozen
class Store:
    """A source of keys or certificates: a file of some type, or PEM text in the settings themselves."""

    prefix: str
    """`ssl.keystore`, or `ssl.truststore`."""
    type: str = "JKS"
    location: str | None = None
    password: str | None = None
    certificates: str | None = None
    """PEM: a chain, or trusted certificates."""
    key: str | None = None
    """PEM: the private key of the chain."""
    key_location: str | None = None
    """A PEM file with the private key, where it is not in the file of the chain."""

    def __repr__(self) -> str:
        """Show neither password nor key."""
        return f"Store({self.prefix}, {self.type}, location={self.location!r})"

    @property
    def is_given(self) -> bool:
        """Return whether the settings name a store."""
        return bool(self.location or self.certificates or self.key)

    @property
    def setting(self) -> str:
        """The setting at fault when the store cannot be used."""
        if self.location or not self.is_given:
            return f"{self.prefix}.location"
        inline = {"ssl.keystore": "certificate.chain", "ssl.truststore": "certificates"}
        return f"{self.prefix}.{inline.get(self.prefix, 'pem')}"

    def invalid(self, reason: str) -> InvalidStore:
        """Return the error that says why the store cannot be used; it shows no secret."""
        value = self.location or ("[hidden]" if self.is_given else "")
        return InvalidStore(self.setting, value, reason)


@frozen
class TlsSettings:
    """The settings of TLS at one end."""

    key_store: Store
    trust_store: Store
    key_password: str | None = None
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    client_auth: str = "none"
    """Of a server: none, requested or required."""
    verifies: bool = True
    """Of a client: whether the certificate of the server is verified at all."""
    checks_host: bool = True
    """Of a client: whether that certificate must be valid for the name that was connected to."""
    allows_dn_changes: bool = True
    """Of a server: whether another key store may have another distinguished name."""
    allows_san_changes: bool = True
    """Of a server: whether another key store may lack subject alternative names that the one before has."""

    def __repr__(self) -> str:
        """Show no password."""
        return (
            f"TlsSettings({self.key_store!r}, {self.trust_store!r}, protocols={self.protocols!r})"
        )

    @property
    def files(self) -> tuple[str, ...]:
        """The files that contexts are made of."""
        keys, trust = self.key_store, self.trust_store
        return tuple(filter(None, (keys.location, keys.key_location, trust.location)))


def parse_settings(
    value: Callable[[str], Any], client_auth: str = "none", prefix: str = ""
) -> TlsSettings:
    """Return the settings that `value(name)` gives by Kafka's names. Raise InvalidSetting.

    `prefix` is what is in front of the names for which `value` looks, for error messages.
    """

    def text(name: str) -> str | None:
        found = value(name)
        return str(found) if found not in (None, "") else None

    given = value("ssl.endpoint.identification.algorithm")
    algorithm = "https" if given is None else str(given).lower()
    if algorithm not in ("", "none", "https"):
        reason = "Expected https, or an empty value for no check of the host's name"
        name = f"{prefix}ssl.endpoint.identification.algorithm"
        raise InvalidSetting(name, algorithm, reason)
    return TlsSettings(
        Store(
            f"{prefix}ssl.keystore",
            _store_type(f"{prefix}ssl.keystore.type", text("ssl.keystore.type")),
            text("ssl.keystore.location"),
            text("ssl.keystore.password"),
            text("ssl.keystore.certificate.chain"),
            text("ssl.keystore.key"),
        ),
        Store(
            f"{prefix}ssl.truststore",
            _store_type(f"{prefix}ssl.truststore.type", text("ssl.truststore.type")),
            text("ssl.truststore.location"),
            text("ssl.truststore.password"),
            text("ssl.truststore.certificates"),
        ),
        text("ssl.key.password"),
        tuple(value("ssl.enabled.protocols") or ("TLSv1.2", "TLSv1.3")),
        tuple(value("ssl.cipher.suites") or ()),
        client_auth,
        checks_host=algorithm == "https",
    )


def _store_type(setting: str, given: str | None) -> str:
    found = (given or "JKS").upper()
    if found not in TYPES:
        raise InvalidSetting(setting, given, f"Expected one of {', '.join(TYPES)}")
    return found


def type_of_file(location: str | None) -> str:
    """Return the type of a store that the end of its file's name says, as ZooKeeper takes it; JKS by default."""
    _, _, suffix = (location or "").lower().rpartition(".")
    return {"pem": "PEM", "p12": "PKCS12", "pfx": "PKCS12"}.get(suffix, "JKS")
