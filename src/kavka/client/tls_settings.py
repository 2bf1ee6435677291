"""Settings of TLS of all clients: Kafka's names, and librdkafka's beside them.

Kafka                             librdkafka
ssl.truststore.location           ssl.ca.location, a PEM file
ssl.truststore.certificates       ssl.ca.pem
ssl.keystore.location             ssl.certificate.location and ssl.key.location, PEM files
ssl.keystore.certificate.chain    ssl.certificate.pem
ssl.keystore.key                  ssl.key.pem
-                                 enable.ssl.certificate.verification
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kavka.settings.declaration import InvalidSetting, Setting, Value, ValueType
from kavka.values import replace

if TYPE_CHECKING:
    from kavka.io import ClientTls
    from kavka.net.tls.settings import Store

_TEXT, _LIST = ValueType.STRING, ValueType.LIST
_SECRET, _BOOL = ValueType.PASSWORD, ValueType.BOOLEAN
WITHOUT_EFFECT: Final = (
    "ssl.ca.certificate.stores",
    "ssl.curves.list",
    "ssl.engine.id",
    "ssl.engine.location",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.providers",
    "ssl.secure.random.implementation",
    "ssl.sigalgs.list",
    "ssl.trustmanager.algorithm",
)
"""Names of TLS settings of other clients that mean nothing here: OpenSSL's own defaults hold."""


def _refused(reason: str) -> Callable[[Value], str | None]:
    return lambda value: reason if value else None


TLS_SETTINGS: list[Setting] = [
    Setting("ssl.truststore.location", _TEXT, None,
            "File with the certificates of trusted authorities. Unset: those of the operating system."),
    Setting("ssl.truststore.type", _TEXT, "JKS",
            "Format of ssl.truststore.location: JKS or PKCS12 (each reads both formats), or PEM."),
    Setting("ssl.truststore.password", _SECRET, None, "Password of ssl.truststore.location."),
    Setting("ssl.truststore.certificates", _SECRET, None,
            "Certificates of trusted authorities as PEM text, instead of ssl.truststore.location."),
    Setting("ssl.keystore.location", _TEXT, None,
            "File with the client's private key and certificate chain, for brokers that ask for a certificate."),
    Setting("ssl.keystore.type", _TEXT, "JKS",
            "Format of ssl.keystore.location: JKS or PKCS12 (each reads both formats), or PEM."),
    Setting("ssl.keystore.password", _SECRET, None, "Password of ssl.keystore.location."),
    Setting("ssl.keystore.key", _SECRET, None, "Client's private key as PEM text, instead of ssl.keystore.location."),
    Setting("ssl.keystore.certificate.chain", _SECRET, None,
            "Certificate chain of ssl.keystore.key as PEM text, the client's own certificate first."),
    Setting("ssl.key.password", _SECRET, None, "Password of the private key."),
    Setting("ssl.enabled.protocols", _LIST, ["TLSv1.2", "TLSv1.3"], "TLS versions that are offered: TLSv1.2, TLSv1.3."),
    Setting("ssl.cipher.suites", _LIST, [], "Cipher suites, by Java's or OpenSSL's names. Empty: OpenSSL's default."),
    Setting("ssl.endpoint.identification.algorithm", _TEXT, "https",
            "Check of the host name in a broker's certificate: https checks it; empty (or none) does not, so that "
            "any trusted certificate is accepted."),
    Setting("ssl.ca.location", _TEXT, None,
            "PEM file with the certificates of trusted authorities (librdkafka's name); `probe` takes those of the "
            "operating system."),
    Setting("ssl.ca.pem", _SECRET, None, "Certificates of trusted authorities as PEM text (librdkafka's name)."),
    Setting("ssl.certificate.location", _TEXT, None,
            "PEM file with the client's certificate chain (librdkafka's name)."),
    Setting("ssl.certificate.pem", _SECRET, None, "Client's certificate chain as PEM text (librdkafka's name)."),
    Setting("ssl.key.location", _TEXT, None, "PEM file with the client's private key (librdkafka's name)."),
    Setting("ssl.key.pem", _SECRET, None, "Client's private key as PEM text (librdkafka's name)."),
    Setting("enable.ssl.certificate.verification", _BOOL, True,
            "True checks the certificates of brokers. False accepts any (librdkafka's name): a machine between "
            "client and broker can then read and change everything."),
    Setting("ssl.crl.location", _TEXT, None,
            "Refused: this release does not check certificate revocation lists.",
            check=_refused("Lists of revoked certificates (CRL, OCSP) are not in this release; remove the issuer from "
                           "the trust store, or use certificates that are valid for a short time")),
    Setting("ssl.engine.factory.class", ValueType.CLASS, None, "Refused: classes of Java do not run here.",
            check=_refused("Classes of Java do not run here; remove the setting to use OpenSSL")),
]  # fmt: skip


def client_tls(value: Callable[[str], Any], client_id: str) -> ClientTls:
    """Return the TLS of a client's connections. Raise InvalidSetting, which names the setting and the reason."""
    from kavka.net.tls.client import ReloadableClientTls
    from kavka.net.tls.settings import parse_settings

    settings = parse_settings(value)
    settings = replace(
        settings,
        verifies=value("enable.ssl.certificate.verification") is not False,
        trust_store=_librdkafka_trust(value) or settings.trust_store,
        key_store=_librdkafka_key(value) or settings.key_store,
    )
    return ReloadableClientTls(settings, client_id or "client")


def _librdkafka_trust(value: Callable[[str], Any]) -> Store | None:
    from kavka.net.tls.settings import Store

    location, pem = value("ssl.ca.location"), value("ssl.ca.pem")
    _only_one("ssl.ca.location", location, "ssl.ca.pem", pem)
    for ours in ("ssl.truststore.location", "ssl.truststore.certificates"):
        _only_one("ssl.ca.location", location, ours, value(ours))
        _only_one("ssl.ca.pem", pem, ours, value(ours))
    if location == "probe":
        return Store("ssl.ca", "PEM")
    if location or pem:
        return Store("ssl.ca", "PEM", location=location, certificates=pem)
    return None


def _librdkafka_key(value: Callable[[str], Any]) -> Store | None:
    from kavka.net.tls.settings import Store

    location, key_location = value("ssl.certificate.location"), value("ssl.key.location")
    pem, key_pem = value("ssl.certificate.pem"), value("ssl.key.pem")
    if not (location or key_location or pem or key_pem):
        return None
    _only_one("ssl.certificate.location", location, "ssl.certificate.pem", pem)
    _only_one("ssl.key.location", key_location, "ssl.key.pem", key_pem)
    for ours in ("ssl.keystore.location", "ssl.keystore.key"):
        _only_one("ssl.certificate.location", location, ours, value(ours))
        _only_one("ssl.certificate.pem", pem, ours, value(ours))
    return Store(
        "ssl.certificate",
        "PEM",
        location=location,
        certificates=pem,
        key=key_pem,
        key_location=key_location,
    )


def _only_one(name: str, value: Any, other: str, other_value: Any) -> None:
    if value and other_value:
        raise InvalidSetting(
            name, "[hidden]" if name.endswith("pem") else value, f"{other} is given as well"
        )
