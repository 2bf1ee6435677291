"""Dynamic broker settings: those of the catalogue, of one listener, and unknown names.

Apache Kafka takes each name that it does not know, because plug-ins may read it; so do we, for a cluster that had such
names, and for brokers of both kinds beside each other. Source: KIP-226.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kavka.settings.broker import BROKER_SETTINGS
from kavka.settings.declaration import InvalidSetting, Scope, Setting, ValueType

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.(.*)")
_OF_A_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
    "sasl.server.max.receive.size",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.kerberos.service.name",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.min.time.before.relogin",
)
"""Listener settings of a SASL mechanism, with the mechanism's name as prefix."""
_MECHANISM_PREFIXES = ("plain.", "scram-sha-256.", "scram-sha-512.", "oauthbearer.", "gssapi.")
_ONLY_OF_A_LISTENER = frozenset(
    [
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
    ]
)
_CLUSTER_WIDE = ("max.connections", "max.connection.creation.rate", "num.network.threads")
"""Of one listener these may be the same for all brokers."""
_SECRETS = tuple(
    setting.name
    for setting in BROKER_SETTINGS
    if setting.type is ValueType.PASSWORD and setting.scope is not Scope.READ_ONLY
)


class UndecodedPassword(str):
    """A stored password that could not be decrypted: it is kept, and has no effect."""

    __slots__ = ()


def without_undecoded(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings without the passwords that could not be decrypted."""
    return {n: text for n, text in settings.items() if not isinstance(text, UndecodedPassword)}


def is_password(name: str) -> bool:
    """Return whether the value of a dynamic setting is stored encrypted, as Apache Kafka decides it."""
    return name.endswith(_SECRETS)


def base_name(name: str) -> str:
    """Return the name that holds for all listeners where `name` is a listener's own, else `name`."""
    of_listener = _LISTENER_PREFIX.fullmatch(name)
    if of_listener is None and not name.startswith(_MECHANISM_PREFIXES):
        return name
    behind = of_listener[1] if of_listener is not None else name
    return next((known for known in _OF_A_MECHANISM if behind.endswith(known)), behind)


def is_of_no_mechanism(name: str) -> bool:
    """Return whether a listener's setting is of a SASL mechanism that there is not: lower case, as in scram-sha-512."""
    of_listener = _LISTENER_PREFIX.fullmatch(name)
    if of_listener is None:
        return False
    mechanism = of_listener[1].removesuffix(base_name(name))
    return mechanism not in ("", *_MECHANISM_PREFIXES)


def is_of_a_listener(name: str) -> bool:
    """Return whether a setting is one listener's own, or one SASL mechanism's."""
    return name.startswith("listener.name.") or name.startswith(_MECHANISM_PREFIXES)


def declaration_of(name: str) -> Setting:
    """Return the declaration of any name; the value of an undeclared one counts as a secret."""
    if name in BROKER_SETTINGS:
        return BROKER_SETTINGS[name]
    behind = base_name(name)
    if behind in BROKER_SETTINGS:
        known = BROKER_SETTINGS[behind]
        return Setting(
            name, known.reported_type, None, known.doc, effective=name != behind and known.effective
        )
    return Setting(name, ValueType.UNKNOWN, None, "", effective=False)


def change_fault(name: str, text: str, *, default: bool) -> str | None:
    """Return why an override may not be set while brokers run; `default` is true for one of all brokers.

    The reason never holds the value of a secret.
    """
    scope = BROKER_SETTINGS[name].scope if name in BROKER_SETTINGS else None
    if scope is Scope.READ_ONLY:
        return f"Cannot update these configs dynamically: Set({name})"
    if name in _ONLY_OF_A_LISTENER:
        return f"These security configs can only be updated for one listener, by its prefix: Set({name})"
    of_listener = _LISTENER_PREFIX.fullmatch(name)
    behind = of_listener[1] if of_listener else name
    of_one_broker = of_listener is not None and behind not in _CLUSTER_WIDE
    if default and (scope is Scope.PER_BROKER or of_one_broker):
        return f"Cannot update these configs at default cluster level: Set({name})"
    if default and is_password(name):
        return f"Password config can be defined only at broker level: Set({name})"
    base = base_name(name)
    if base in BROKER_SETTINGS:
        try:
            BROKER_SETTINGS[base].parse_new(text)
        except InvalidSetting as error:
            return str(error)
    return None


def is_in_force(name: str, *, default: bool) -> bool:
    """Return whether a stored override of one broker, or of all, has an effect: others may not be dynamic at all."""
    scope = BROKER_SETTINGS[name].scope if name in BROKER_SETTINGS else None
    if scope is Scope.READ_ONLY or name in _ONLY_OF_A_LISTENER:
        return False
    if not default:
        return True
    of_listener = _LISTENER_PREFIX.fullmatch(name)
    of_one_broker = of_listener is not None and of_listener[1] not in _CLUSTER_WIDE
    return scope is not Scope.PER_BROKER and not of_one_broker


def waits_for_a_start(name: str, listeners: Iterable[str]) -> bool:
    """Return whether a setting is one of SASL of an open listener: these stay as they were at the start."""
    of_listener = _LISTENER_PREFIX.fullmatch(name)
    return (
        of_listener is not None
        and name.split(".", 3)[2] in {listener.lower() for listener in listeners}
        and base_name(name).startswith(("sasl.", "connections.max.reauth.ms"))
    )
