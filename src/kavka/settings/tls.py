"""Broker settings of TLS: for all listeners with SSL or SASL_SSL, or of one, as `listener.name.<name>.ssl.*`."""

from __future__ import annotations

from kavka.settings.declaration import Scope, Setting, Value, ValueType

_T = ValueType
_HERE = Scope.PER_BROKER

TLS_SETTINGS: list[Setting] = [
    Setting(
        "ssl.keystore.type",
        _T.STRING,
        "JKS",
        "Format of the key store: JKS or PKCS12, of which the file may be either, or PEM. PKCS12 needs `kavka[tls]`.",
        scope=_HERE,
    ),
    Setting(
        "ssl.keystore.location",
        _T.STRING,
        None,
        "File with the broker's private key and its certificate chain; it is read again when it changes.",
        scope=_HERE,
    ),
    Setting("ssl.keystore.password", _T.PASSWORD, None, "Password of the key store.", scope=_HERE),
    Setting(
        "ssl.key.password",
        _T.PASSWORD,
        None,
        "Password of the private key; without it, in JKS, that of the key store.",
        scope=_HERE,
    ),
    Setting(
        "ssl.keystore.key",
        _T.PASSWORD,
        None,
        "The private key as PEM text, instead of a file.",
        scope=_HERE,
    ),
    Setting(
        "ssl.keystore.certificate.chain",
        _T.PASSWORD,
        None,
        "The certificate chain of ssl.keystore.key as PEM text, the broker's own certificate first.",
        scope=_HERE,
    ),
    Setting(
        "ssl.truststore.type", _T.STRING, "JKS", "Format of the trust store, as above.", scope=_HERE
    ),
    Setting(
        "ssl.truststore.location",
        _T.STRING,
        None,
        "File with the certificates that are trusted; without one, those of the system are. It is read again when it "
        "changes.",
        scope=_HERE,
    ),
    Setting(
        "ssl.truststore.password",
        _T.PASSWORD,
        None,
        "Password of the trust store; JKS is read without, and then not checked for damage.",
        scope=_HERE,
    ),
    Setting(
        "ssl.truststore.certificates",
        _T.PASSWORD,
        None,
        "The trusted certificates as PEM text, instead of a file.",
        scope=_HERE,
    ),
    Setting(
        "ssl.client.auth",
        _T.STRING,
        "none",
        "Certificates of clients: required, requested (a client may do without), or none. With SASL_SSL only as "
        "listener.name.<name>.ssl.client.auth.",
        choices=("required", "requested", "none"),
        scope=_HERE,
    ),
    Setting(
        "ssl.principal.mapping.rules",
        _T.STRING,
        "DEFAULT",
        "Rules that make a principal's name of a client certificate's distinguished name, the first that fits: "
        "RULE:pattern/replacement/[LU], or DEFAULT for the whole name.",
    ),
    Setting(
        "ssl.enabled.protocols",
        _T.LIST,
        ["TLSv1.2", "TLSv1.3"],
        "Versions of TLS: TLSv1.2, TLSv1.3. Older ones are refused.",
        scope=_HERE,
    ),
    Setting(
        "ssl.cipher.suites",
        _T.LIST,
        [],
        "Cipher suites, by Java's or OpenSSL's names; by default OpenSSL's choice of strong ones.",
        scope=_HERE,
    ),
    Setting(
        "ssl.endpoint.identification.algorithm",
        _T.STRING,
        "https",
        "https checks that the certificate of another broker is valid for its host; empty does not.",
        scope=_HERE,
    ),
    Setting(
        "kavka.ssl.max.handshakes",
        _T.INT,
        1000,
        "TLS handshakes in progress of one listener; beyond, the oldest of the address with most is given up.",
        minimum=1,
    ),
    Setting(
        "kavka.ssl.handshake.timeout.ms",
        _T.INT,
        10_000,
        "Time after which a TLS handshake is given up.",
        minimum=1,
    ),
    Setting(
        "kavka.ssl.reload.interval.ms",
        _T.INT,
        5_000,
        "Interval at which files of key and trust stores are looked at for changes.",
        minimum=1,
    ),
]
"""Kafka's settings of TLS that have an effect, and kavka's own."""


def _not_served(value: Value) -> str | None:
    if value is not True:
        return None
    return "Lists of revoked certificates (CRL, OCSP) are not in this release"


ZOOKEEPER_TLS_SETTINGS: list[Setting] = [
    Setting(
        "zookeeper.clientCnxnSocket",
        _T.STRING,
        None,
        "With zookeeper.ssl.client.enable it must be org.apache.zookeeper.ClientCnxnSocketNetty, as Apache Kafka needs "
        "it there, or be left out. Without TLS it has no effect.",
    ),
    Setting(
        "zookeeper.ssl.client.enable",
        _T.BOOLEAN,
        False,
        "True connects to ZooKeeper with TLS, on its secureClientPort.",
    ),
    Setting(
        "zookeeper.ssl.keystore.location",
        _T.STRING,
        None,
        "File with the key and certificate of this broker as a client of ZooKeeper.",
    ),
    Setting(
        "zookeeper.ssl.keystore.password", _T.PASSWORD, None, "Password of that file and its key."
    ),
    Setting(
        "zookeeper.ssl.keystore.type",
        _T.STRING,
        None,
        "JKS, PKCS12 or PEM; by default as the file's name ends.",
    ),
    Setting(
        "zookeeper.ssl.truststore.location",
        _T.STRING,
        None,
        "File with the certificates that are trusted of ZooKeeper.",
    ),
    Setting("zookeeper.ssl.truststore.password", _T.PASSWORD, None, "Password of that file."),
    Setting(
        "zookeeper.ssl.truststore.type",
        _T.STRING,
        None,
        "JKS, PKCS12 or PEM; by default as the file's name ends.",
    ),
    Setting(
        "zookeeper.ssl.protocol",
        _T.STRING,
        "TLSv1.2",
        "The version of TLS, where zookeeper.ssl.enabled.protocols is not set.",
    ),
    Setting(
        "zookeeper.ssl.enabled.protocols",
        _T.LIST,
        None,
        "Versions of TLS: TLSv1.2, TLSv1.3.",
    ),
    Setting("zookeeper.ssl.cipher.suites", _T.LIST, None, "Cipher suites, as ssl.cipher.suites."),
    Setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        _T.STRING,
        "HTTPS",
        "HTTPS checks that ZooKeeper's certificate is valid for its host; empty does not.",
    ),
    Setting(
        "zookeeper.ssl.crl.enable",
        _T.BOOLEAN,
        False,
        "True is refused: lists of revoked certificates are not in this release.",
        check=_not_served,
    ),
    Setting(
        "zookeeper.ssl.ocsp.enable",
        _T.BOOLEAN,
        False,
        "True is refused: OCSP is not in this release.",
        check=_not_served,
    ),
]
"""Kafka's settings of connections to ZooKeeper with TLS."""
