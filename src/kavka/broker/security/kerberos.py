"""GSSAPI at a listener: the broker's principal and its keys, and the users of clients' principals.

Both come from the listener's login module, `Krb5LoginModule required useKeyTab=true keyTab="…" principal="…";`. The key
tab is read again for each client, so a new key counts at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kavka.broker.configs.listener_settings import JAAS, ListenerSettings
from kavka.core.sasl.exchange import GssStep, Outcome, Question, SaslError
from kavka.core.sasl.gssapi import GSSAPI, GssapiServer
from kavka.core.sasl.jaas import JaasLogin
from kavka.core.sasl.kerberos_names import PrincipalRules, RuleError
from kavka.net.kerberos.login import EXAMPLE, EXTRA
from kavka.settings.declaration import InvalidSetting

RULES: Final = "sasl.kerberos.principal.to.local.rules"
EXAMPLE_PRINCIPAL: Final = "kafka/broker1.example.com@EXAMPLE.COM"


def acceptor(settings: ListenerSettings, login: JaasLogin | None) -> Callable[[], GssapiServer]:
    """Return what begins an exchange at a listener. Blocks: it reads the key tab. Raise InvalidSetting."""
    principal, keytab = _keys(settings, login)
    try:
        from kavka.net.kerberos.contexts import Acceptor, default_realm
    except ImportError as error:
        raise InvalidSetting("sasl.enabled.mechanisms", GSSAPI, EXTRA) from error
    try:
        keys = Acceptor(None if principal == "*" else principal, keytab)
    except SaslError as error:
        raise InvalidSetting(settings.name_of(JAAS, GSSAPI), "[hidden]", str(error)) from None
    rules = _rules(settings, default_realm())
    return lambda: GssapiServer(keys.accept(), rules.user_of)


def _keys(settings: ListenerSettings, login: JaasLogin | None) -> tuple[str, str | None]:
    """Return the principal that a listener accepts for, `*` for any, and the key tab. Raise InvalidSetting."""
    options = login.options if login else {}
    principal, keytab = options.get("principal"), options.get("keyTab") or None
    if not principal or options.get("useKeyTab", "").lower() != "true":
        reason = (
            f"GSSAPI needs the principal and the key tab of this broker: set it to: "
            f"{EXAMPLE.format(EXAMPLE_PRINCIPAL)} or set sasl.enabled.mechanisms to another mechanism"
        )
        raise InvalidSetting(settings.name_of(JAAS, GSSAPI), "[hidden]" if login else "", reason)
    return principal, keytab


def _rules(settings: ListenerSettings, realm: str) -> PrincipalRules:
    texts = settings.items(RULES, GSSAPI)
    try:
        return PrincipalRules(texts, realm)
    except RuleError as error:
        raise InvalidSetting(RULES, ",".join(texts), str(error)) from None


async def taken(question: Question) -> Outcome:
    """Return the outcome of a step, on a thread: the library reads the key tab and the file of replays."""
    assert isinstance(question, GssStep)
    return await asyncio.to_thread(question.take)
