"""Settings of a served registry, in the names and with the defaults of ZooKeeper's `zoo.cfg`."""

from __future__ import annotations

from kavka.settings.declaration import Catalogue, Setting, ValueType

_T = ValueType

REGISTRY_SETTINGS = Catalogue(
    [
        Setting(
            "dataDir", _T.STRING, "/tmp/zookeeper", "Directory of the snapshot and the journal."
        ),
        Setting(
            "clientPort",
            _T.INT,
            2181,
            "The port for clients; 0 takes a free one.",
            minimum=0,
            maximum=65535,
        ),
        Setting(
            "clientPortAddress", _T.STRING, "", "The address to listen on; empty means every one."
        ),
        Setting(
            "secureClientPort",
            _T.INT,
            -1,
            "The port for clients with TLS; 0 takes a free one, -1 serves none. With it, and without clientPort, there "
            "is no port in plain text.",
            minimum=-1,
            maximum=65535,
        ),
        Setting(
            "secureClientPortAddress",
            _T.STRING,
            "",
            "The address of secureClientPort; empty means every one.",
        ),
        Setting(
            "ssl.keyStore.location",
            _T.STRING,
            None,
            "File with the server's key and certificate chain.",
        ),
        Setting("ssl.keyStore.password", _T.PASSWORD, None, "Password of that file and its key."),
        Setting(
            "ssl.keyStore.type",
            _T.STRING,
            None,
            "JKS, PKCS12 or PEM; by default as the file's name ends.",
        ),
        Setting(
            "ssl.trustStore.location",
            _T.STRING,
            None,
            "File with the certificates that are trusted of clients.",
        ),
        Setting("ssl.trustStore.password", _T.PASSWORD, None, "Password of that file."),
        Setting(
            "ssl.trustStore.type",
            _T.STRING,
            None,
            "JKS, PKCS12 or PEM; by default as the file's name ends.",
        ),
        Setting(
            "ssl.clientAuth",
            _T.STRING,
            "need",
            "Certificates of clients: need, want, or none.",
            choices=("need", "want", "none"),
        ),
        Setting(
            "ssl.enabledProtocols",
            _T.LIST,
            ["TLSv1.2", "TLSv1.3"],
            "Versions of TLS: TLSv1.2, TLSv1.3.",
        ),
        Setting("ssl.ciphersuites", _T.LIST, [], "Cipher suites, by Java's or OpenSSL's names."),
        Setting(
            "tickTime",
            _T.INT,
            2000,
            "Milliseconds of a tick, from which the bounds of session timeouts follow.",
            minimum=1,
        ),
        Setting(
            "minSessionTimeout",
            _T.INT,
            -1,
            "The shortest session timeout in milliseconds; -1 means two ticks.",
            minimum=-1,
        ),
        Setting(
            "maxSessionTimeout",
            _T.INT,
            -1,
            "The longest session timeout in milliseconds; -1 means twenty ticks.",
            minimum=-1,
        ),
        Setting(
            "maxClientCnxns",
            _T.INT,
            60,
            "Maximum number of connections per client address; 0 means no limit.",
            minimum=0,
        ),
        Setting(
            "4lw.commands.whitelist",
            _T.LIST,
            ["srvr"],
            "The four-letter words that are answered; * means all.",
        ),
        Setting(
            "kavka.jaas.file",
            _T.STRING,
            None,
            "A JAAS file with the users that may log in by SASL (DIGEST-MD5); by default that of KAFKA_OPTS or "
            "SERVER_JVMFLAGS, -Djava.security.auth.login.config=FILE. Without one there is no SASL.",
        ),
        Setting(
            "kavka.jaas.section",
            _T.STRING,
            "Server",
            "The section of that file; in KAFKA_OPTS -Dzookeeper.sasl.serverconfig=NAME.",
        ),
        Setting(
            "DigestAuthenticationProvider.superDigest",
            _T.STRING,
            "",
            "The identity `user:hash` of the scheme digest to which everything is allowed.",
        ),
        Setting(
            "X509AuthenticationProvider.superUser",
            _T.STRING,
            "",
            "The name in a client's certificate to whose owner everything is allowed.",
        ),
        Setting("superUser", _T.STRING, "", "The user of SASL to whom everything is allowed."),
        Setting(
            "enforce.auth.enabled",
            _T.BOOLEAN,
            False,
            "True closes connections whose first request behind the session's is none to show an identity.",
        ),
        Setting(
            "enforce.auth.schemes",
            _T.LIST,
            [],
            "With enforce.auth.enabled: the schemes of which one identity is enough: sasl, digest, x509.",
        ),
        Setting(
            "sessionRequireClientSASLAuth",
            _T.BOOLEAN,
            False,
            "The older name of enforce.auth.enabled=true with enforce.auth.schemes=sasl.",
        ),
        Setting(
            "skipACL",
            _T.STRING,
            "no",
            "yes keeps access lists and lets everybody do everything.",
            choices=("yes", "no"),
        ),
        Setting(
            "kavka.ssl.reload.interval.ms",
            _T.INT,
            5_000,
            "Interval at which the files of key and trust store are looked at for changes.",
            minimum=1,
        ),
        Setting(
            "jute.maxbuffer",
            _T.INT,
            0xFFFFF,
            "The largest request in bytes; a larger one closes its connection.",
            minimum=1024,
        ),
    ]
)
"""Settings that have an effect."""

WITHOUT_EFFECT = frozenset(
    [
        "admin.enableServer",
        "admin.serverAddress",
        "admin.serverPort",
        "audit.enable",
        "autopurge.purgeInterval",
        "autopurge.snapRetainCount",
        "clientPortListenBacklog",
        "dataLogDir",
        "forceSync",
        "globalOutstandingLimit",
        "initLimit",
        "jaasLoginRenew",
        "metricsProvider.className",
        "metricsProvider.httpPort",
        "preAllocSize",
        "quorumListenOnAllIPs",
        "reconfigEnabled",
        "requireClientAuthScheme",
        "snapCount",
        "standaloneEnabled",
        "syncEnabled",
        "syncLimit",
    ]
)
"""Names of ZooKeeper's that mean nothing for one process without an ensemble."""
