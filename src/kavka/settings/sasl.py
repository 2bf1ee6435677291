"""Broker settings of SASL and of delegation tokens."""

from __future__ import annotations

from kavka.settings.declaration import Scope, Setting, ValueType

_T = ValueType
_BROKER = Scope.PER_BROKER

TOKEN_KEY = "delegation.token.secret.key"
OLD_TOKEN_KEY = "delegation.token.master.key"

SASL_SETTINGS: list[Setting] = [
    Setting(
        "sasl.enabled.mechanisms",
        _T.LIST,
        ["GSSAPI"],
        "SASL mechanisms that listeners offer: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.mechanism.inter.broker.protocol",
        _T.STRING,
        "GSSAPI",
        "SASL mechanism by which brokers authenticate to one another, where their listener is a SASL one: PLAIN, "
        "SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.jaas.config",
        _T.PASSWORD,
        None,
        "Login module with its options. As listener.name.<listener>.<mechanism>.sasl.jaas.config it serves clients "
        "of that listener; without the prefix it is this broker's own login (user and password, principal and "
        "key tab, or client id and secret) at other brokers.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.server.callback.handler.class",
        _T.CLASS,
        None,
        "Check of passwords (PLAIN) or tokens (OAUTHBEARER) instead of the built-in one: module:Class in Python, as "
        "listener.name.<listener>.<mechanism>.sasl.server.callback.handler.class.",
    ),
    Setting(
        "sasl.server.max.receive.size",
        _T.INT,
        524_288,
        "Maximum bytes of a request of a client that has not authenticated; a larger one closes its connection.",
        minimum=512,
    ),
    Setting(
        "kavka.unauthenticated.max.bytes",
        _T.LONG,
        16 << 20,
        "Maximum memory in bytes of half-received requests of all clients that have not authenticated; beyond it "
        "the connection with most of it is closed.",
        minimum=1 << 20,
    ),
    Setting(
        "connections.max.reauth.ms",
        _T.LONG,
        0,
        "Time in milliseconds after which a client must authenticate again; one that does not is disconnected at "
        "its next request. 0: never. Of one mechanism, "
        "listener.name.<listener>.<mechanism>.connections.max.reauth.ms.",
    ),
    Setting(
        "connection.failed.authentication.delay.ms",
        _T.INT,
        100,
        "Delay in milliseconds of the response to a failed authentication, after which the connection is closed: it "
        "slows down the guessing of passwords.",
        minimum=0,
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        _T.STRING,
        None,
        "OAUTHBEARER: http, https or file URL of the JSON Web Key Set with which tokens are checked.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        _T.LONG,
        3_600_000,
        "OAUTHBEARER: age in milliseconds at which the key set is read again.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        _T.LONG,
        100,
        "OAUTHBEARER: first wait in milliseconds before the key set is read again after a failure; it doubles each "
        "time.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        _T.LONG,
        10_000,
        "OAUTHBEARER: longest wait in milliseconds before the key set is read again after a failure.",
    ),
    Setting(
        "sasl.oauthbearer.expected.audience",
        _T.LIST,
        None,
        "OAUTHBEARER: audiences of which a token must name one. Unset: any audience.",
    ),
    Setting(
        "sasl.oauthbearer.expected.issuer",
        _T.STRING,
        None,
        "OAUTHBEARER: issuer that a token must name. Unset: any issuer.",
    ),
    Setting(
        "sasl.oauthbearer.clock.skew.seconds",
        _T.INT,
        30,
        "OAUTHBEARER: seconds by which the clocks of the issuer and of the broker may differ.",
    ),
    Setting(
        "sasl.oauthbearer.scope.claim.name",
        _T.STRING,
        "scope",
        "OAUTHBEARER: claim of a token that holds its scope.",
    ),
    Setting(
        "sasl.oauthbearer.sub.claim.name",
        _T.STRING,
        "sub",
        "OAUTHBEARER: claim of a token that names the user.",
    ),
    Setting(
        "sasl.oauthbearer.token.endpoint.url",
        _T.STRING,
        None,
        "OAUTHBEARER between brokers: http or https URL from which this broker requests tokens, by the grant "
        "client_credentials with clientId, clientSecret and scope of its login module.",
    ),
    Setting(
        "sasl.login.callback.handler.class",
        _T.CLASS,
        None,
        "OAUTHBEARER between brokers: `module:name` of a callable, async or not, that returns this broker's token and "
        "when it expires, in milliseconds since 1970.",
    ),
    Setting(
        "sasl.login.connect.timeout.ms",
        _T.INT,
        None,
        "OAUTHBEARER between brokers: maximum time in milliseconds to connect to the token endpoint. Unset: 10000.",
        minimum=1,
    ),
    Setting(
        "sasl.login.read.timeout.ms",
        _T.INT,
        None,
        "OAUTHBEARER between brokers: maximum time in milliseconds to wait for each part of the token endpoint's "
        "response. Unset: 10000.",
        minimum=1,
    ),
    Setting(
        "sasl.login.retry.backoff.ms",
        _T.LONG,
        100,
        "OAUTHBEARER between brokers: first wait in milliseconds before a token is requested again after a failure; it "
        "doubles each time.",
    ),
    Setting(
        "sasl.login.retry.backoff.max.ms",
        _T.LONG,
        10_000,
        "OAUTHBEARER between brokers: longest wait in milliseconds before a token is requested again after a failure.",
    ),
    Setting(
        "sasl.login.refresh.window.factor",
        _T.DOUBLE,
        0.8,
        "OAUTHBEARER between brokers: share of a token's life after which another one is requested.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.login.refresh.window.jitter",
        _T.DOUBLE,
        0.05,
        "OAUTHBEARER between brokers: maximum share of a token's life that is added at random to the time of its "
        "renewal.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.login.refresh.min.period.seconds",
        _T.SHORT,
        60,
        "OAUTHBEARER between brokers: minimum time in seconds from a token to its renewal, unless its life is shorter "
        "than this and sasl.login.refresh.buffer.seconds together.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.login.refresh.buffer.seconds",
        _T.SHORT,
        300,
        "OAUTHBEARER between brokers: time in seconds before a token's end by which another one is requested, unless "
        "its life is shorter than this and sasl.login.refresh.min.period.seconds together.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.kerberos.service.name",
        _T.STRING,
        None,
        "GSSAPI: service name in the principals of the other brokers, before the slash. Unset: that of this "
        "broker's own principal.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.kerberos.principal.to.local.rules",
        _T.LIST,
        ["DEFAULT"],
        "GSSAPI: rules from a client's principal to its user; the first that matches decides. DEFAULT takes the "
        "first component of principals of the default realm; others need RULE:[n:text](pattern)s/pattern/text/g/L.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.kerberos.ticket.renew.window.factor",
        _T.DOUBLE,
        0.8,
        "GSSAPI between brokers: share of a ticket's life, 0.5 or more, after which it is renewed.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.kerberos.ticket.renew.jitter",
        _T.DOUBLE,
        0.05,
        "GSSAPI between brokers: maximum share of a ticket's life that is added at random to the time of its renewal.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.kerberos.min.time.before.relogin",
        _T.LONG,
        60_000,
        "GSSAPI between brokers: minimum time in milliseconds between two renewals of tickets.",
        scope=_BROKER,
        fixed=True,
    ),
]

TOKEN_SETTINGS: list[Setting] = [
    Setting(
        TOKEN_KEY,
        _T.PASSWORD,
        None,
        "Key from which the secrets of delegation tokens are made; all brokers must have the same. Unset: there are "
        "no delegation tokens.",
    ),
    Setting(
        OLD_TOKEN_KEY,
        _T.PASSWORD,
        None,
        f"Older name of {TOKEN_KEY}, read when that is not set.",
    ),
    Setting(
        "delegation.token.max.lifetime.ms",
        _T.LONG,
        604_800_000,
        "Maximum life in milliseconds of a delegation token, renewals included.",
        minimum=1,
    ),
    Setting(
        "delegation.token.expiry.time.ms",
        _T.LONG,
        86_400_000,
        "Time in milliseconds for which a delegation token is valid, from its creation or its last renewal.",
        minimum=1,
    ),
    Setting(
        "delegation.token.expiry.check.interval.ms",
        _T.LONG,
        3_600_000,
        "Interval in milliseconds at which the controller removes expired delegation tokens.",
        minimum=1,
    ),
]
