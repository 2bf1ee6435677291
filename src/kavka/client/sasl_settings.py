"""The settings of a client's SASL, with the names of Kafka's Java clients and of librdkafka."""

from __future__ import annotations

from typing import Final

from kavka.settings.declaration import Setting, ValueType

_INT, _TEXT, _SECRET = ValueType.INT, ValueType.STRING, ValueType.PASSWORD

SASL: Final = [
    Setting("sasl.mechanism", _TEXT, None,
            "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI; without it, that of the login module."),
    Setting("sasl.mechanisms", _TEXT, None, "librdkafka's name of sasl.mechanism: one mechanism."),
    Setting("sasl.jaas.config", _SECRET, None,
            "Kafka's login module: org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="..." password="...";'),
    Setting("sasl.username", _TEXT, None, "User of PLAIN and SCRAM, in place of sasl.jaas.config (librdkafka's name)."),
    Setting("sasl.password", _SECRET, None, "Password of PLAIN and SCRAM (librdkafka's name)."),
    Setting("kavka.sasl.tokenauth", ValueType.BOOLEAN, False,
            "SCRAM: sasl.username and sasl.password are the id and the HMAC of a delegation token. In sasl.jaas.config "
            'it is the option tokenauth="true".'),
    Setting("sasl.login.callback.handler.class", ValueType.CLASS, None,
            "OAUTHBEARER: a callable, perhaps async, or `module:name` of one, that returns (token, expiry in ms)."),
    Setting("sasl.oauthbearer.token.endpoint.url", _TEXT, None,
            "OAUTHBEARER: where tokens are got by the grant client_credentials."),
    Setting("sasl.oauthbearer.client.id", _TEXT, None, "OAUTHBEARER: the id of the client at that address."),
    Setting("sasl.oauthbearer.client.secret", _SECRET, None, "OAUTHBEARER: the secret of that client."),
    Setting("sasl.oauthbearer.scope", _TEXT, None, "OAUTHBEARER: the scope that tokens are to have."),
    Setting("sasl.oauthbearer.extensions", _TEXT, None,
            "OAUTHBEARER: SASL extensions that go with tokens: name=value,name=value."),
    Setting("sasl.oauthbearer.method", _TEXT, "default", "librdkafka's choice; oidc asks the token endpoint.",
            choices=("default", "oidc")),
    Setting("sasl.oauthbearer.config", _TEXT, None,
            "librdkafka's unsecured tokens: principal=alice scope=a,b lifeSeconds=3600 extension_x=y, with blanks "
            "between; principalClaimName and scopeClaimName name the claims."),
    Setting("enable.sasl.oauthbearer.unsecure.jwt", ValueType.BOOLEAN, False,
            "OAUTHBEARER: make tokens without a signature, for tests (librdkafka's name)."),
    Setting("sasl.login.connect.timeout.ms", _INT, 10_000,
            "OAUTHBEARER: time within which the token endpoint must answer.", minimum=1),
    Setting("sasl.kerberos.service.name", _TEXT, None,
            "GSSAPI: the first component of the brokers' principals, kafka by default; the second is their host."),
    Setting("sasl.kerberos.principal", _TEXT, None,
            "GSSAPI: the principal of this client, in place of sasl.jaas.config (librdkafka's name)."),
    Setting("sasl.kerberos.keytab", _TEXT, None,
            "GSSAPI: the file with its keys (librdkafka's name); without it, tickets come from the cache of kinit."),
    Setting("sasl.kerberos.ticket.renew.window.factor", ValueType.DOUBLE, 0.8,
            "GSSAPI: share of the life of tickets from a key tab after which they are got again, from 0.5 on."),
    Setting("sasl.kerberos.ticket.renew.jitter", ValueType.DOUBLE, 0.05,
            "GSSAPI: share of the life of tickets that is added to it at most, by chance."),
    Setting("sasl.kerberos.min.time.before.relogin", ValueType.LONG, 60_000,
            "GSSAPI: least time between two renewals of tickets from a key tab."),
]  # fmt: skip
