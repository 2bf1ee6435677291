"""This broker's own authentication to other brokers, through a listener with SASL between them.

User and password are those of the listener's login module for `sasl.mechanism.inter.broker.protocol`, as in Apache
Kafka, or of `sasl.jaas.config`.
"""

from __future__ import annotations

from typing import Final

from kavka.broker.context import BrokerContext
from kavka.broker.security.sasl_mechanisms import JAAS, jaas_login, parsed_login
from kavka.core.sasl.mechanisms import PASSWORD_MECHANISMS
from kavka.net.peer_security import SaslLogin
from kavka.net.sasl_login import password_login
from kavka.settings.declaration import InvalidSetting

_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"


def inter_broker_login(context: BrokerContext) -> SaslLogin | None:
    """Return the login; None where brokers reach each other without SASL, or there are no others.

    Raise InvalidSetting.
    """
    config = context.config
    name = config.inter_broker_listener
    protocol = next((e.protocol for e in config.advertised if e.name == name), "")
    if context.has_own_registry or not protocol.startswith("SASL_"):
        return None
    settings = context.configs.listener(name)
    mechanism = settings.text(_MECHANISM).upper()
    if mechanism not in PASSWORD_MECHANISMS:
        reason = (
            f"kavka does not support {mechanism} between brokers, which reach each other by the listener {name}: set "
            f"{_MECHANISM} to one of {', '.join(PASSWORD_MECHANISMS)}"
        )
        raise InvalidSetting(_MECHANISM, mechanism, reason)
    enabled = [each.upper() for each in settings.items("sasl.enabled.mechanisms")]
    if mechanism not in enabled:
        reason = f"sasl.enabled.mechanisms of the listener {name} must include it, or brokers cannot authenticate"
        raise InvalidSetting(_MECHANISM, mechanism, reason)
    login = jaas_login(settings, mechanism)
    general = settings.general(JAAS)
    if general is not None and (login is None or "username" not in login.options):
        login = parsed_login(JAAS, general, mechanism)
    options = {} if login is None else login.options
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        reason = (
            f"brokers authenticate to each other by {mechanism}: set it, with the options username and password of "
            "this broker"
        )
        raise InvalidSetting(settings.name_of(JAAS, mechanism), "[hidden]" if login else "", reason)
    return password_login(mechanism, user, password, context.random)
