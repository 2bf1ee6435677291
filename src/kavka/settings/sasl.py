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
        "Mechanisms that SASL listeners offer: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.mechanism.inter.broker.protocol",
        _T.STRING,
        "GSSAPI",
        "The mechanism by which brokers authenticate to each other, where their listener is a SASL one: "
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or GSSAPI.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.jaas.config",
        _T.PASSWORD,
        None,
        "The login module of a mechanism with its options, as listener.name.<listener>.<mechanism>.sasl.jaas.config; "
        "without that prefix, the user and password, or the principal and key tab, of this broker at others.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.server.callback.handler.class",
        _T.CLASS,
        None,
        "What checks passwords (PLAIN) or tokens (OAUTHBEARER) in place of the built-in check: module:Class, with the "
        "prefix listener.name.<listener>.<mechanism>. in front of the setting's name.",
    ),
    Setting(
        "sasl.server.max.receive.size",
        _T.INT,
        524_288,
        "The largest frame that is read of a client that has not authenticated.",
        minimum=512,
    ),
    Setting(
        "kavka.unauthenticated.max.bytes",
        _T.LONG,
        16 << 20,
        "Memory of the half-received requests of all clients that have not authenticated; beyond it the connection "
        "that has most is closed.",
        minimum=1 << 20,
    ),
    Setting(
        "connections.max.reauth.ms",
        _T.LONG,
        0,
        "A client that does not authenticate again within this time is disconnected at its next request; 0: never. "
        "Also as listener.name.<listener>.<mechanism>.connections.max.reauth.ms.",
    ),
    Setting(
        "connection.failed.authentication.delay.ms",
        _T.INT,
        100,
        "The delay of the response to a failed authentication, behind which the connection is closed.",
        minimum=0,
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        _T.STRING,
        None,
        "Where the keys of the issuer of tokens are: an http, https or file URL of a JSON Web Key Set.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        _T.LONG,
        3_600_000,
        "The keys are read again when they are so old.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        _T.LONG,
        100,
        "Keys that could not be read are read again after so long, each time after twice as long.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        _T.LONG,
        10_000,
        "The longest of these times.",
    ),
    Setting(
        "sasl.oauthbearer.expected.audience",
        _T.LIST,
        None,
        "Audiences of which a token must name one; unset: any.",
    ),
    Setting(
        "sasl.oauthbearer.expected.issuer",
        _T.STRING,
        None,
        "The issuer that a token must name; unset: any.",
    ),
    Setting(
        "sasl.oauthbearer.clock.skew.seconds",
        _T.INT,
        30,
        "How far the clocks of issuer and broker may differ.",
    ),
    Setting(
        "sasl.oauthbearer.scope.claim.name",
        _T.STRING,
        "scope",
        "The claim of a token that holds its scope.",
    ),
    Setting(
        "sasl.oauthbearer.sub.claim.name",
        _T.STRING,
        "sub",
        "The claim of a token that names the user.",
    ),
    Setting(
        "sasl.kerberos.service.name",
        _T.STRING,
        None,
        "GSSAPI: the first component of the principals of the other brokers; unset: that of this broker's principal.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.kerberos.principal.to.local.rules",
        _T.LIST,
        ["DEFAULT"],
        "GSSAPI: rules that make the user of a client's principal; the first that fits decides. DEFAULT: the first "
        "component, in the default realm. RULE:[n:text](pattern)s/pattern/text/g/L: the others.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.kerberos.ticket.renew.window.factor",
        _T.DOUBLE,
        0.8,
        "GSSAPI between brokers: share of the life of tickets after which they are got again, from 0.5 on.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.kerberos.ticket.renew.jitter",
        _T.DOUBLE,
        0.05,
        "GSSAPI between brokers: share of the life of tickets that is added to it at most, by chance.",
        scope=_BROKER,
        fixed=True,
    ),
    Setting(
        "sasl.kerberos.min.time.before.relogin",
        _T.LONG,
        60_000,
        "GSSAPI between brokers: least time between two renewals of tickets.",
        scope=_BROKER,
        fixed=True,
    ),
]

TOKEN_SETTINGS: list[Setting] = [
    Setting(
        TOKEN_KEY,
        _T.PASSWORD,
        None,
        "The key from which the secrets of delegation tokens are made, the same on all brokers. "
        "Without one there are no delegation tokens.",
    ),
    Setting(
        OLD_TOKEN_KEY,
        _T.PASSWORD,
        None,
        f"The old name of {TOKEN_KEY}, for where that is not set.",
    ),
    Setting(
        "delegation.token.max.lifetime.ms",
        _T.LONG,
        604_800_000,
        "The time after which a delegation token cannot be renewed any more.",
        minimum=1,
    ),
    Setting(
        "delegation.token.expiry.time.ms",
        _T.LONG,
        86_400_000,
        "The time for which a delegation token is valid, or valid again when it is renewed.",
        minimum=1,
    ),
    Setting(
        "delegation.token.expiry.check.interval.ms",
        _T.LONG,
        3_600_000,
        "The interval at which the controller removes delegation tokens that have expired.",
        minimum=1,
    ),
]
