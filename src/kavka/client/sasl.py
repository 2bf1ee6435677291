"""The SASL login of a client, from its settings: Kafka's `sasl.jaas.config`, or librdkafka's settings."""

from __future__ import annotations

from kavka.client.config import Config
from kavka.core.sasl.gssapi import GSSAPI
from kavka.core.sasl.jaas import JaasError, JaasLogin, parse_jaas
from kavka.core.sasl.mechanisms import LOGIN_MODULES, MECHANISMS
from kavka.core.sasl.oauthbearer import OAUTHBEARER
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS
from kavka.io import Clock, Random
from kavka.net.peer_security import SaslLogin
from kavka.net.sasl_login import password_login
from kavka.settings.declaration import InvalidSetting


def sasl_login(config: Config, clock: Clock, random: Random) -> SaslLogin:
    """Return the login of the settings. Raise InvalidSetting, which shows no secret."""
    jaas = _jaas(config)
    mechanism = _mechanism(config, jaas)
    if mechanism == OAUTHBEARER:
        from kavka.client.bearer_tokens import bearer_login

        return bearer_login(config, {} if jaas is None else jaas.options, clock, random)
    if mechanism == GSSAPI:
        return _kerberos(config, jaas, random)
    if jaas is None:
        user, password = (
            config.optional_text("sasl.username"),
            config.optional_text("sasl.password"),
        )
        if not user or not password:
            missing = "sasl.password" if user else "sasl.username"
            reason = f"{mechanism} needs sasl.username and sasl.password, or sasl.jaas.config"
            raise InvalidSetting(missing, None, reason)
        token_auth = config.flag("kavka.sasl.tokenauth")
        if token_auth and mechanism not in SCRAM_MECHANISMS:
            reason = f"delegation tokens log in by {' or '.join(SCRAM_MECHANISMS)}"
            raise InvalidSetting("sasl.mechanism", mechanism, reason)
        return password_login(mechanism, user, password, random, token_auth=token_auth)
    user, password = jaas.options.get("username"), jaas.options.get("password")
    if not user or not password:
        reason = f"{mechanism} needs the options username and password"
        raise InvalidSetting("sasl.jaas.config", "[hidden]", reason)
    token_auth = jaas.options.get("tokenauth", "").lower() == "true"
    return password_login(mechanism, user, password, random, token_auth=token_auth)


def _kerberos(config: Config, jaas: JaasLogin | None, random: Random) -> SaslLogin:
    """Return the login by a key tab or a ticket cache, of Kafka's login module or of librdkafka's settings."""
    from kavka.net.kerberos.login import Identity, identity_of, kerberos_login, service_of
    from kavka.net.kerberos.renewal import RenewalTimes

    options = {} if jaas is None else jaas.options
    if jaas is not None:
        identity = identity_of(options, "sasl.jaas.config", "alice@EXAMPLE.COM")
    else:
        keytab = config.optional_text("sasl.kerberos.keytab")
        principal = config.optional_text("sasl.kerberos.principal")
        if keytab is not None and principal is None:
            reason = "sasl.kerberos.keytab needs the principal whose keys it has: alice@EXAMPLE.COM"
            raise InvalidSetting("sasl.kerberos.principal", None, reason)
        identity = Identity(principal, keytab, None)
    configured = config.optional_text("sasl.kerberos.service.name")
    times = RenewalTimes(
        config.value("sasl.kerberos.ticket.renew.window.factor"),
        config.value("sasl.kerberos.ticket.renew.jitter"),
        config.integer("sasl.kerberos.min.time.before.relogin"),
    )
    return kerberos_login(identity, service_of(options, configured, "kafka"), random, times)


def _jaas(config: Config) -> JaasLogin | None:
    text = config.optional_text("sasl.jaas.config")
    if text is None:
        return None
    try:
        return parse_jaas(text)
    except JaasError as error:
        raise InvalidSetting("sasl.jaas.config", "[hidden]", str(error)) from None


def _mechanism(config: Config, jaas: JaasLogin | None) -> str:
    """Return the mechanism that is set, or the only one of the login module."""
    given = config.optional_text("sasl.mechanism") or config.optional_text("sasl.mechanisms")
    possible = [
        name for name, module in LOGIN_MODULES.items() if jaas is None or jaas.is_module(module)
    ]
    if not possible:
        known = dict.fromkeys(module.rpartition(".")[2] for module in LOGIN_MODULES.values())
        reason = f"the login module is none of {', '.join(known)}"
        raise InvalidSetting("sasl.jaas.config", "[hidden]", reason)
    if given is None:
        if len(possible) == 1:
            return possible[0]
        reason = f"Set it to one of {', '.join(possible)}"
        raise InvalidSetting("sasl.mechanism", None, reason)
    mechanism = given.strip().upper()
    if mechanism not in MECHANISMS:
        reason = f"kavka supports {', '.join(MECHANISMS)}"
        raise InvalidSetting("sasl.mechanism", given, reason)
    if jaas is not None and mechanism not in possible:
        reason = f"the login module is {jaas.module.rpartition('.')[2]}"
        raise InvalidSetting("sasl.mechanism", given, reason)
    return mechanism
