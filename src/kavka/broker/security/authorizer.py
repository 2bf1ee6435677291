"""Authorizers: Kafka's `AclAuthorizer`, and classes of users.

A class of one's own is named `module:Class`. It is called once, with the broker's settings as a dictionary of texts,
and has:

    allows(principal, host, operation, resource_type, name) -> bool
        asked for each topic, group … of each request, so it must return at once: what it reads belongs in memory
    allows_any(principal, host, operation, resource_type) -> bool
        optional: whether some resource of the type is allowed (an idempotent producer needs WRITE on any topic)
    start() and close()
        optional, with or without `async`: called before the broker serves, and when it stops

Arguments are texts: `User:alice`, `10.0.0.1`, `WRITE`, `TOPIC`, `orders`. An exception denies.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kavka.broker.configs.broker_config import ACL_AUTHORIZER, BrokerConfig
from kavka.broker.requests.session import NO_DECISIONS, Session
from kavka.broker.security.user_classes import make_user_object
from kavka.core.access.entries import parse_super_users
from kavka.core.access.names import AclOperation, AclResourceType
from kavka.core.access.rules import AccessRules
from kavka.settings.declaration import InvalidSetting

log = logging.getLogger(__name__)

_SETTING: Final = "authorizer.class.name"
_COMMA: Final = re.compile(r",\s*User:")
"""Kafka takes it for a part of a name, which may have commas (CN=alice,O=Acme)."""


class AclAuthorizer:
    """Decides by ACLs, super users, and the default for what has none."""

    def __init__(self, config: BrokerConfig) -> None:
        """Begin without ACLs. Raise InvalidSetting."""
        text = config.text("super.users")
        try:
            super_users = parse_super_users(text)
        except ValueError as error:
            raise InvalidSetting("super.users", text, str(error)) from error
        if _COMMA.search(text):
            log.warning("comma in super.users, whose principals are separated by ; value=%s", text)
        default = config.flag("allow.everyone.if.no.acl.found")
        self.rules = AccessRules(super_users, allows_without_rules=default)
        self.allowed = 0
        """Decisions since the start, without those that a session remembers."""
        self.denied = 0
        """Refusals since the start: each, since no session is refused by what it remembers."""

    def allows(
        self, session: Session, operation: AclOperation, resource: AclResourceType, name: str
    ) -> bool:
        """Return whether the session's principal may do this with a resource."""
        self._remember_in(session)
        allowed = self.rules.allows(session.principal, session.host, operation, resource, name)
        if allowed:
            self.allowed += 1
        else:
            self.denied += 1
        return allowed

    def allows_any(
        self, session: Session, operation: AclOperation, resource: AclResourceType
    ) -> bool:
        """Return whether the session's principal may do this with any resource of a type."""
        self._remember_in(session)
        return self.rules.allows_any(session.principal, session.host, operation, resource)

    def _remember_in(self, session: Session) -> None:
        """Begin to remember decisions in a session, unless it does already."""
        if session.decisions is NO_DECISIONS:
            session.decisions = self.rules.decisions(session.principal, session.host)

    async def start(self) -> None:
        """Do nothing: its ACLs are loaded from the registry."""

    async def close(self) -> None:
        """Do nothing."""


class CustomAuthorizer:
    """Asks an object of a user's class."""

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        """Import and make it. Raise InvalidSetting."""
        self._name = name
        self._authorizer = make_user_object(_SETTING, name, settings, "allows")
        if inspect.iscoroutinefunction(self._authorizer.allows):
            raise InvalidSetting(_SETTING, name, "Its method allows must not be async")
        self._allows: Callable[..., Any] = self._authorizer.allows
        self._allows_any: Callable[..., Any] | None = getattr(self._authorizer, "allows_any", None)
        self.allowed = 0
        self.denied = 0
        """Decisions since the start."""

    def allows(
        self, session: Session, operation: AclOperation, resource: AclResourceType, name: str
    ) -> bool:
        """Return whether the session's principal may do this with a resource."""
        allowed = self._ask(self._allows, session, operation.name, resource.name, name)
        if allowed:
            self.allowed += 1
        else:
            self.denied += 1
        return allowed

    def allows_any(
        self, session: Session, operation: AclOperation, resource: AclResourceType
    ) -> bool:
        """Return whether the session's principal may do this with any resource of a type."""
        if self._allows_any is None:
            return False
        return self._ask(self._allows_any, session, operation.name, resource.name)

    def _ask(self, ask: Callable[..., Any], session: Session, *what: str) -> bool:
        try:
            allowed = ask(str(session.principal), session.host, *what)
        except Exception:
            # Code of a user: what it cannot decide is denied, and the broker serves on.
            log.exception("authorizer failed class=%s", self._name)
            return False
        if allowed is not True and allowed is not False:
            log.error("authorizer returned %r, no bool class=%s", type(allowed), self._name)
        return allowed is True

    async def start(self) -> None:
        """Prepare it, if it has `start`. What it raises stops the start."""
        await self._call("start")

    async def close(self) -> None:
        """Close it, if it has `close`."""
        try:
            await self._call("close")
        except Exception:
            # Code of a user: the broker stops all the same.
            log.exception("authorizer not closed class=%s", self._name)

    async def _call(self, method: str) -> None:
        call = getattr(self._authorizer, method, None)
        if call is not None:
            result = call()
            if inspect.isawaitable(result):
                await result


def make_authorizer(config: BrokerConfig) -> AclAuthorizer | CustomAuthorizer | None:
    """Return the authorizer of the settings; None without one. Raise InvalidSetting."""
    name = config.text(_SETTING)
    if not name:
        return None
    return AclAuthorizer(config) if name == ACL_AUTHORIZER else CustomAuthorizer(name, config.texts)
