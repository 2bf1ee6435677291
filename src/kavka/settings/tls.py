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
        "Format of ssl.keystore.location: JKS or PKCS12 (each reads both formats), or PEM. A PKCS12 file needs "
        "`kavka[tls]`.",
        scope=_HERE,
    ),
    Setting(
        "ssl.keystore.location",
        _T.STRING,
        None,
        "File with the broker's private key and certificate chain; changes are read without a restart.",
        scope=_HERE,
    ),
    Setting(
        "ssl.keystore.password",
        _T.PASSWORD,
        None,
        "Password of ssl.keystore.location.",
        scope=_HERE,
    ),
    Setting(
        "ssl.key.password",
        _T.PASSWORD,
        None,
        "Password of the private key. Unset: with JKS, that of the key store.",
        scope=_HERE,
    ),
    Setting(
        "ssl.keystore.key",
        _T.PASSWORD,
        None,
        "Private key as PEM text, instead of ssl.keystore.location.",
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
        "ssl.truststore.type",
        _T.STRING,
        "JKS",
        "Format of ssl.truststore.location: JKS or PKCS12 (each reads both formats), or PEM. A PKCS12 file needs "
        "`kavka[tls]`.",
        scope=_HERE,
    ),
    Setting(
        "ssl.truststore.location",
        _T.STRING,
        None,
        "File with the certificates of trusted authorities; changes are read without a restart. Unset: those of the "
        "operating system.",
        scope=_HERE,
    ),
    Setting(
        "ssl.truststore.password",
        _T.PASSWORD,
        None,
        "Password of ssl.truststore.location. A JKS file is read without one, and then not checked for damage.",
        scope=_HERE,
    ),
    Setting(
        "ssl.truststore.certificates",
        _T.PASSWORD,
        None,
        "Certificates of trusted authorities as PEM text, instead of ssl.truststore.location.",
        scope=_HERE,
    ),
    Setting(
        "ssl.client.auth",
        _T.STRING,
        "none",
        "Certificates of clients: required, requested (a client may have none), or none. On SASL_SSL listeners only "
        "listener.name.<name>.ssl.client.auth is obeyed.",
        choices=("required", "requested", "none"),
        scope=_HERE,
    ),
    Setting(
        "ssl.principal.mapping.rules",
        _T.STRING,
        "DEFAULT",
        "Rules from the distinguished name of a client's certificate to its principal; the first that matches "
        "decides: RULE:pattern/replacement/[LU], or DEFAULT for the whole name.",
    ),
    Setting(
        "ssl.enabled.protocols",
        _T.LIST,
        ["TLSv1.2", "TLSv1.3"],
        "TLS versions that are offered: TLSv1.2, TLSv1.3. Older ones are refused.",
        scope=_HERE,
    ),
    Setting(
        "ssl.cipher.suites",
        _T.LIST,
        [],
        "Cipher suites, by Java's or OpenSSL's names. Empty: OpenSSL's default.",
        scope=_HERE,
    ),
    Setting(
        "ssl.endpoint.identification.algorithm",
        _T.STRING,
        "https",
        "Check of host names in other brokers' certificates: https checks them; empty does not, so that any trusted "
        "certificate is accepted.",
        scope=_HERE,
    ),
    Setting(
        "ssl.allow.dn.changes",
        _T.BOOLEAN,
        False,
        "True accepts, while the broker runs, a key store whose certificate has another distinguished name; false "
        "keeps the one before.",
    ),
    Setting(
        "ssl.allow.san.changes",
        _T.BOOLEAN,
        False,
        "True accepts, while the broker runs, a key store whose certificate lacks subject alternative names that the "
        "one before has; false keeps the one before.",
    ),
    Setting(
        "kavka.ssl.max.handshakes",
        _T.INT,
        1000,
        "Maximum number of TLS handshakes in progress of one listener; beyond it, the oldest one of the address "
        "with most handshakes is aborted.",
        minimum=1,
    ),
    Setting(
        "kavka.ssl.handshake.timeout.ms",
        _T.INT,
        10_000,
        "Time in milliseconds after which an unfinished TLS handshake is aborted.",
        minimum=1,
    ),
    Setting(
        "kavka.ssl.reload.interval.ms",
        _T.INT,
        5_000,
        "Interval in milliseconds at which the files of key stores and trust stores are checked for changes.",
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
        "Kept for files of Apache Kafka: with zookeeper.ssl.client.enable=true it must be "
        "org.apache.zookeeper.ClientCnxnSocketNetty or unset; otherwise it has no effect.",
    ),
    Setting(
        "zookeeper.ssl.client.enable",
        _T.BOOLEAN,
        False,
        "True connects to ZooKeeper with TLS; zookeeper.connect must name its secureClientPort.",
    ),
    Setting(
        "zookeeper.ssl.keystore.location",
        _T.STRING,
        None,
        "File with the private key and certificate with which this broker authenticates to ZooKeeper.",
    ),
    Setting(
        "zookeeper.ssl.keystore.password",
        _T.PASSWORD,
        None,
        "Password of zookeeper.ssl.keystore.location and of its key.",
    ),
    Setting(
        "zookeeper.ssl.keystore.type",
        _T.STRING,
        None,
        "Format of zookeeper.ssl.keystore.location: JKS, PKCS12 or PEM. Unset: by the file name's extension.",
    ),
    Setting(
        "zookeeper.ssl.truststore.location",
        _T.STRING,
        None,
        "File with the certificates of the authorities that are trusted for ZooKeeper.",
    ),
    Setting(
        "zookeeper.ssl.truststore.password",
        _T.PASSWORD,
        None,
        "Password of zookeeper.ssl.truststore.location.",
    ),
    Setting(
        "zookeeper.ssl.truststore.type",
        _T.STRING,
        None,
        "Format of zookeeper.ssl.truststore.location: JKS, PKCS12 or PEM. Unset: by the file name's extension.",
    ),
    Setting(
        "zookeeper.ssl.protocol",
        _T.STRING,
        "TLSv1.2",
        "TLS version to ZooKeeper when zookeeper.ssl.enabled.protocols is not set.",
    ),
    Setting(
        "zookeeper.ssl.enabled.protocols",
        _T.LIST,
        None,
        "TLS versions to ZooKeeper: TLSv1.2, TLSv1.3. Unset: zookeeper.ssl.protocol.",
    ),
    Setting(
        "zookeeper.ssl.cipher.suites",
        _T.LIST,
        None,
        "Cipher suites to ZooKeeper, by Java's or OpenSSL's names. Unset: OpenSSL's default.",
    ),
    Setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        _T.STRING,
        "HTTPS",
        "Check of the host name in ZooKeeper's certificate: HTTPS checks it; empty does not, so that any trusted "
        "certificate is accepted.",
    ),
    Setting(
        "zookeeper.ssl.crl.enable",
        _T.BOOLEAN,
        False,
        "Check of certificate revocation lists, which this release does not have: true is refused.",
        check=_not_served,
    ),
    Setting(
        "zookeeper.ssl.ocsp.enable",
        _T.BOOLEAN,
        False,
        "Check of revocation by OCSP, which this release does not have: true is refused.",
        check=_not_served,
    ),
]
"""Kafka's settings of connections to ZooKeeper with TLS."""
