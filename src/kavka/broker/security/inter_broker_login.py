"""This broker's own authentication to other brokers, through a listener with SASL between them.

User and password, principal and key tab, or what tokens are got by, are those of the listener's login module for
`sasl.mechanism.inter.broker.protocol`, as in Apache Kafka, or of `sasl.jaas.config`.
"""

from __future__ import annotations

from typing import Final

from kavka.broker.configs.listener_settings import JAAS, ListenerSettings
from kavka.broker.context import BrokerContext
from kavka.broker.security.sasl_mechanisms import jaas_login, parsed_login
from kavka.core.sasl.gssapi import GSSAPI
from kavka.core.sasl.jaas import JaasLogin
from kavka.core.sasl.mechanisms import MECHANISMS
from kavka.core.sasl.oauthbearer import OAUTHBEARER
from kavka.net.peer_security import SaslLogin
from kavka.net.sasl_login import password_login
from kavka.settings.declaration import InvalidSetting

_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_OWN_TOKENS: Final = ("clientId", "unsecuredLogin")
"""Options of OAuthBearerLoginModule by which a broker gets its own tokens; others say how it checks clients'."""


def inter_broker_login(context: BrokerContext) -> SaslLogin | None:
    """Return the login; None where brokers reach each other without SASL, or there are no others.

    Raise InvalidSetting.
    """
    config = context.config
    name = config.inter_broker_listener
    protocol = context.endpoints.protocol(name) or ""
    if context.has_own_registry or not protocol.startswith("SASL_"):
        return None
    settings = context.effective_configs.listener(name)
    mechanism = settings.text(_MECHANISM).upper()
    if mechanism not in MECHANISMS:
        reason = (
            f"kavka does not support {mechanism} between brokers, which reach each other by the listener {name}: set "
            f"{_MECHANISM} to one of {', '.join(MECHANISMS)}"
        )
        raise InvalidSetting(_MECHANISM, mechanism, reason)
    enabled = [each.upper() for each in settings.items("sasl.enabled.mechanisms")]
    if mechanism not in enabled:
        reason = (
            f"sasl.enabled.mechanisms of the listener {name} must include it, or brokers cannot authenticate: it has "
            f"{', '.join(enabled)}"
        )
        raise InvalidSetting(_MECHANISM, mechanism, reason)
    if mechanism == GSSAPI:
        return _kerberos(context, settings)
    if mechanism == OAUTHBEARER:
        from kavka.broker.security.bearer_login import broker_bearer_login

        login = _bearer_module(settings)
        return broker_bearer_login(settings, login, context.clock, context.random)
    login = _login(settings, mechanism, "username")
    options = {} if login is None else login.options
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        reason = (
            f"brokers authenticate to each other by {mechanism}: set it, with the options username and password of "
            "this broker"
        )
        raise InvalidSetting(settings.name_of(JAAS, mechanism), "[hidden]" if login else "", reason)
    return password_login(mechanism, user, password, context.random)


def _login(settings: ListenerSettings, mechanism: str, needed: str) -> JaasLogin | None:
    """Return the login module of the listener, or the general one where that has no option of this name."""
    login = jaas_login(settings, mechanism)
    general = settings.general(JAAS)
    if general is not None and (login is None or needed not in login.options):
        return parsed_login(JAAS, general, mechanism)
    return login


def _bearer_module(settings: ListenerSettings) -> JaasLogin | None:
    """Return the listener's login module; the general one where that says nothing about this broker's own tokens."""
    login = jaas_login(settings, OAUTHBEARER)
    general = settings.general(JAAS)
    names = () if login is None else login.options
    if general is not None and not any(name.startswith(_OWN_TOKENS) for name in names):
        return parsed_login(JAAS, general, OAUTHBEARER)
    return login


def _kerberos(context: BrokerContext, settings: ListenerSettings) -> SaslLogin:
    """Return the login as this broker's principal; without settings the others' have the same first component."""
    from kavka.broker.security.kerberos import EXAMPLE_PRINCIPAL
    from kavka.net.kerberos.login import identity_of, kerberos_login, service_of
    from kavka.net.kerberos.renewal import RenewalTimes

    login = _login(settings, GSSAPI, "principal")
    options = {} if login is None else login.options
    identity = identity_of(options, settings.name_of(JAAS, GSSAPI), EXAMPLE_PRINCIPAL)
    own = (identity.principal or "kafka").partition("@")[0].partition("/")[0]
    configured = settings.optional("sasl.kerberos.service.name", GSSAPI)
    service = service_of(options, configured, own)
    times = RenewalTimes(
        settings.number("sasl.kerberos.ticket.renew.window.factor", GSSAPI),
        settings.number("sasl.kerberos.ticket.renew.jitter", GSSAPI),
        settings.integer("sasl.kerberos.min.time.before.relogin", GSSAPI),
    )
    return kerberos_login(identity, service, context.random, times)
