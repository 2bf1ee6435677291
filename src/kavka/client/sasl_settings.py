"""The settings of a client's SASL, with the names of Kafka's Java clients and of librdkafka."""

from __future__ import annotations

from typing import Final

from kavka.settings.declaration import Setting, ValueType

_INT, _TEXT, _SECRET = ValueType.INT, ValueType.STRING, ValueType.PASSWORD

SASL: Final = [
    Setting("sasl.mechanism", _TEXT, None,
            "SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI. Unset: that of the login "
            "module in sasl.jaas.config."),
    Setting("sasl.mechanisms", _TEXT, None, "librdkafka's name of sasl.mechanism; one mechanism."),
    Setting("sasl.jaas.config", _SECRET, None,
            "Login as in Java's clients: org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="..." password="...";'),
    Setting("sasl.username", _TEXT, None, "User of PLAIN and SCRAM, instead of sasl.jaas.config (librdkafka's name)."),
    Setting("sasl.password", _SECRET, None,
            "Password of PLAIN and SCRAM, instead of sasl.jaas.config (librdkafka's name)."),
    Setting("kavka.sasl.tokenauth", ValueType.BOOLEAN, False,
            "SCRAM: true says that sasl.username and sasl.password are id and HMAC of a delegation token. In "
            'sasl.jaas.config it is the option tokenauth="true".'),
    Setting("sasl.login.callback.handler.class", ValueType.CLASS, None,
            "OAUTHBEARER: callable, async or not, or `module:name` of one, that returns (token, milliseconds since "
            "1970 at which it expires)."),
    Setting("sasl.oauthbearer.token.endpoint.url", _TEXT, None,
            "OAUTHBEARER: URL from which tokens are requested, by the grant client_credentials."),
    Setting("sasl.oauthbearer.client.id", _TEXT, None,
            "OAUTHBEARER: client id at sasl.oauthbearer.token.endpoint.url."),
    Setting("sasl.oauthbearer.client.secret", _SECRET, None,
            "OAUTHBEARER: client secret at sasl.oauthbearer.token.endpoint.url."),
    Setting("sasl.oauthbearer.scope", _TEXT, None, "OAUTHBEARER: scope that is requested for tokens."),
    Setting("sasl.oauthbearer.extensions", _TEXT, None,
            "OAUTHBEARER: SASL extensions that are sent with tokens: name=value,name=value."),
    Setting("sasl.oauthbearer.method", _TEXT, "default",
            "OAUTHBEARER (librdkafka's name): oidc requests tokens from sasl.oauthbearer.token.endpoint.url.",
            choices=("default", "oidc")),
    Setting("sasl.oauthbearer.config", _TEXT, None,
            "OAUTHBEARER (librdkafka's name): content of tokens without a signature, with blanks between: "
            "principal=alice scope=a,b lifeSeconds=3600 extension_x=y; principalClaimName and scopeClaimName name "
            "the claims."),
    Setting("enable.sasl.oauthbearer.unsecure.jwt", ValueType.BOOLEAN, False,
            "OAUTHBEARER (librdkafka's name): true makes tokens without a signature. For tests only: anyone can "
            "make them."),
    Setting("sasl.login.connect.timeout.ms", _INT, 10_000,
            "OAUTHBEARER: maximum time in milliseconds to connect to the token endpoint.", minimum=1),
    Setting("sasl.login.read.timeout.ms", _INT, 10_000,
            "OAUTHBEARER: maximum time in milliseconds to wait for each part of the token endpoint's response.",
            minimum=1),
    Setting("sasl.kerberos.service.name", _TEXT, None,
            "GSSAPI: service name in the brokers' principals, before the slash; behind it is their host. Unset: "
            "kafka."),
    Setting("sasl.kerberos.principal", _TEXT, None,
            "GSSAPI: principal of this client, instead of sasl.jaas.config (librdkafka's name)."),
    Setting("sasl.kerberos.keytab", _TEXT, None,
            "GSSAPI: key tab file of the principal (librdkafka's name). Unset: tickets of kinit's cache."),
    Setting("sasl.kerberos.ticket.renew.window.factor", ValueType.DOUBLE, 0.8,
            "GSSAPI: share of the life of a ticket from a key tab, 0.5 or more, after which it is renewed."),
    Setting("sasl.kerberos.ticket.renew.jitter", ValueType.DOUBLE, 0.05,
            "GSSAPI: maximum share of a ticket's life that is added at random to the time of its renewal."),
    Setting("sasl.kerberos.min.time.before.relogin", ValueType.LONG, 60_000,
            "GSSAPI: minimum time in milliseconds between two renewals of tickets from a key tab."),
]  # fmt: skip
