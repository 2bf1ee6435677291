"""Broker settings of TLS: for all listeners with SSL or SASL_SSL, or of one, as `listener.name.<name>.ssl.*`."""

from __future__ import annotations

from kavka.settings.declaration import Scope, Setting, ValueType

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
        "Certificates of clients: required, requested (a client may do without), or none.",
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
        "TLS handshakes in progress of one listener; beyond, the oldest is given up.",
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
