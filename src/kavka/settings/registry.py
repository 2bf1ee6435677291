"""Settings of a served registry, in the names and with the defaults of ZooKeeper's `zoo.cfg`."""

from __future__ import annotations

from kavka.settings.declaration import Catalogue, Setting, ValueType

_T = ValueType

REGISTRY_SETTINGS = Catalogue(
    [
        Setting(
            "dataDir",
            _T.STRING,
            "/tmp/zookeeper",
            "Directory of the registry's snapshot and journal: all metadata of the cluster.",
        ),
        Setting(
            "clientPort",
            _T.INT,
            2181,
            "Port for clients without TLS; 0 takes a free one.",
            minimum=0,
            maximum=65535,
        ),
        Setting(
            "clientPortAddress",
            _T.STRING,
            "",
            "Address on which clientPort listens; empty: all addresses.",
        ),
        Setting(
            "secureClientPort",
            _T.INT,
            -1,
            "Port for clients with TLS; 0 takes a free one, -1 opens none. With it and without clientPort there is "
            "no port without TLS.",
            minimum=-1,
            maximum=65535,
        ),
        Setting(
            "secureClientPortAddress",
            _T.STRING,
            "",
            "Address on which secureClientPort listens; empty: all addresses.",
        ),
        Setting(
            "ssl.keyStore.location",
            _T.STRING,
            None,
            "File with the private key and certificate chain of secureClientPort.",
        ),
        Setting(
            "ssl.keyStore.password",
            _T.PASSWORD,
            None,
            "Password of ssl.keyStore.location and of its key.",
        ),
        Setting(
            "ssl.keyStore.type",
            _T.STRING,
            None,
            "Format of ssl.keyStore.location: JKS, PKCS12 or PEM. Unset: by the file name's extension.",
        ),
        Setting(
            "ssl.trustStore.location",
            _T.STRING,
            None,
            "File with the certificates of the authorities that are trusted for clients.",
        ),
        Setting(
            "ssl.trustStore.password", _T.PASSWORD, None, "Password of ssl.trustStore.location."
        ),
        Setting(
            "ssl.trustStore.type",
            _T.STRING,
            None,
            "Format of ssl.trustStore.location: JKS, PKCS12 or PEM. Unset: by the file name's extension.",
        ),
        Setting(
            "ssl.clientAuth",
            _T.STRING,
            "need",
            "Certificates of clients on secureClientPort: need refuses clients without one, want takes them as "
            "well, none asks for none.",
            choices=("need", "want", "none"),
        ),
        Setting(
            "ssl.enabledProtocols",
            _T.LIST,
            ["TLSv1.2", "TLSv1.3"],
            "TLS versions of secureClientPort: TLSv1.2, TLSv1.3.",
        ),
        Setting(
            "ssl.ciphersuites",
            _T.LIST,
            [],
            "Cipher suites of secureClientPort, by Java's or OpenSSL's names. Empty: OpenSSL's default.",
        ),
        Setting(
            "tickTime",
            _T.INT,
            2000,
            "Length of a tick in milliseconds: the default bounds of session timeouts are 2 and 20 ticks.",
            minimum=1,
        ),
        Setting(
            "minSessionTimeout",
            _T.INT,
            -1,
            "Shortest session timeout in milliseconds; a client that asks for less gets this. -1: 2 ticks.",
            minimum=-1,
        ),
        Setting(
            "maxSessionTimeout",
            _T.INT,
            -1,
            "Longest session timeout in milliseconds; a client that asks for more gets this. -1: 20 ticks.",
            minimum=-1,
        ),
        Setting(
            "maxClientCnxns",
            _T.INT,
            60,
            "Maximum number of connections from one address; 0: no limit.",
            minimum=0,
        ),
        Setting(
            "4lw.commands.whitelist",
            _T.LIST,
            ["srvr"],
            "Four-letter words that are answered, such as srvr, ruok, mntr; * allows all.",
        ),
        Setting(
            "kavka.jaas.file",
            _T.STRING,
            None,
            "JAAS file with the users that may log in by SASL (DIGEST-MD5). Unset: the file of "
            "-Djava.security.auth.login.config in KAFKA_OPTS or SERVER_JVMFLAGS; without one there is no SASL.",
        ),
        Setting(
            "kavka.jaas.section",
            _T.STRING,
            "Server",
            "Section of the JAAS file with the users; in KAFKA_OPTS -Dzookeeper.sasl.serverconfig=NAME.",
        ),
        Setting(
            "DigestAuthenticationProvider.superDigest",
            _T.STRING,
            "",
            "Super user of the scheme digest, as user:hash: access lists do not bind it. Empty: none.",
        ),
        Setting(
            "X509AuthenticationProvider.superUser",
            _T.STRING,
            "",
            "Super user by certificate: access lists do not bind the client whose certificate has this name. Empty: "
            "none.",
        ),
        Setting(
            "superUser",
            _T.STRING,
            "",
            "Super user of SASL: access lists do not bind it. Empty: none.",
        ),
        Setting(
            "enforce.auth.enabled",
            _T.BOOLEAN,
            False,
            "True closes a client's connection unless it authenticates by one of enforce.auth.schemes right after "
            "its session has begun.",
        ),
        Setting(
            "enforce.auth.schemes",
            _T.LIST,
            [],
            "Schemes of which enforce.auth.enabled asks for one: sasl, digest, x509.",
        ),
        Setting(
            "sessionRequireClientSASLAuth",
            _T.BOOLEAN,
            False,
            "Older name: true is enforce.auth.enabled=true with enforce.auth.schemes=sasl.",
        ),
        Setting(
            "skipACL",
            _T.STRING,
            "no",
            "yes stores access lists and does not check them: every client may do everything.",
            choices=("yes", "no"),
        ),
        Setting(
            "kavka.ssl.reload.interval.ms",
            _T.INT,
            5_000,
            "Interval in milliseconds at which the files of key store and trust store are checked for changes.",
            minimum=1,
        ),
        Setting(
            "jute.maxbuffer",
            _T.INT,
            0xFFFFF,
            "Maximum bytes of a request; a larger one closes its connection.",
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
