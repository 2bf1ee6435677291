"""The parts that protect a broker: sessions by SASL, delegation tokens, TLS, access control.

Each is made, and imported, where settings ask for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka.broker.configs.broker_config import METRICS_LISTENER, Endpoint, has_sasl
from kavka.broker.context import BrokerContext
from kavka.settings.sasl import OLD_TOKEN_KEY, TOKEN_KEY
from kavka.values import replace

if TYPE_CHECKING:
    from kavka.broker.control.config_changes import ConfigChanges
    from kavka.broker.lifecycle.periodic_tasks import PeriodicTasks
    from kavka.broker.requests.dispatcher import Dispatcher
    from kavka.broker.security.access_control import AccessControl
    from kavka.broker.security.delegation_tokens import DelegationTokens
    from kavka.broker.security.sessions import Sessions
    from kavka.broker.security.tls import BrokerTls
    from kavka.broker.security.tls_sessions import TlsSessions
    from kavka.io import ServerTls


log = logging.getLogger(__name__)


class SecurityParts:
    """Makes the parts as policies of the dispatcher, starts and stops them."""

    def __init__(
        self, context: BrokerContext, dispatcher: Dispatcher, config_changes: ConfigChanges
    ) -> None:
        """Make them before the first connection: what it may do is decided when it is opened. Raise InvalidSetting."""
        self._context = context
        self._dispatcher = dispatcher
        self.tokens: DelegationTokens | None = None
        self.sessions: Sessions | None = None
        self.tls: BrokerTls | None = None
        self.tls_sessions: TlsSessions | None = None
        self.access_control: AccessControl | None = None
        self._make_tokens()
        self._make_sessions(config_changes)
        self._make_tls()
        self._make_access_control()

    def _make_tokens(self) -> None:
        """Make the delegation tokens."""
        config = self._context.config
        key = config.optional(TOKEN_KEY) or config.optional(OLD_TOKEN_KEY)
        if key:
            from kavka.broker.security.delegation_tokens import DelegationTokens

            self.tokens = DelegationTokens(self._context, key)
            if not config.text("authorizer.class.name"):
                log.warning(
                    "delegation tokens without an authorizer: every user may have them made for every other, and see "
                    "all: set authorizer.class.name"
                )

    def _make_sessions(self, config_changes: ConfigChanges) -> None:
        """Make what authenticates clients by SASL, and this broker to others."""
        context = self._context
        if not has_sasl(context.config):
            return
        from kavka.broker.security.inter_broker_login import inter_broker_login
        from kavka.broker.security.sessions import Sessions

        self.sessions = Sessions(context, self.tokens)
        config_changes.on_entity_change.append(self.sessions.entity_changed)
        config_changes.notifications.reloads.append(self.sessions.start)
        context.peer_security = replace(context.peer_security, sasl=inter_broker_login(context))
        policies = replace(self._dispatcher.policies, open_session=self.sessions.open)
        self._dispatcher.set_policies(policies)

    def _make_tls(self) -> None:
        """Make the TLS of listeners and of connections to other brokers."""
        context = self._context
        listeners = context.config.listeners
        if (
            any(endpoint.is_encrypted for endpoint in listeners)
            or context.config.serves_metrics_with_tls
        ):
            from kavka.broker.security.tls import BrokerTls

            self.tls = BrokerTls(context)
            context.peer_security = replace(context.peer_security, tls=self.tls.to_brokers())
        if any(endpoint.protocol == "SSL" for endpoint in listeners):
            from kavka.broker.security.tls_sessions import TlsSessions

            policies = self._dispatcher.policies
            self.tls_sessions = TlsSessions(context, policies.open_session)
            self._dispatcher.set_policies(replace(policies, open_session=self.tls_sessions.open))

    def _make_access_control(self) -> None:
        """Make the authorizer and the audit."""
        config = self._context.config
        if not (config.text("authorizer.class.name") or config.optional("kavka.audit.log")):
            return
        from kavka.broker.security.access_control import AccessControl

        self.access_control = AccessControl(self._context)
        policies = self.access_control.policies(self._dispatcher.policies)
        self._dispatcher.set_policies(policies)
        audit = self.access_control.audit
        for sessions in (self.sessions, self.tls_sessions):
            if sessions is not None and audit is not None:
                sessions.observers.append(audit.authentication_ended)

    def tls_of(self, endpoint: Endpoint) -> ServerTls | None:
        """Return the TLS of a listener, None for one without. Raise InvalidSetting where a store cannot be used."""
        return None if self.tls is None else self.tls.of_listener(endpoint)

    def tls_of_metrics(self) -> ServerTls | None:
        """Return the TLS of the metrics' port, None without. Raise InvalidSetting where a store cannot be used."""
        if not self._context.config.serves_metrics_with_tls:
            return None
        assert self.tls is not None
        return self.tls.of_name(METRICS_LISTENER)

    async def start(self) -> None:
        """Load tokens, credentials and ACLs, which must be before a request is served.

        Raise ConnectionError, UnreadableAcls, OSError.
        """
        if self.tokens is not None:
            await self.tokens.start()
        if self.sessions is not None:
            await self.sessions.start()
        if self.access_control is not None:
            await self.access_control.start()

    def reload_files(self, periodic_tasks: PeriodicTasks) -> None:
        """Look at files of key and trust stores for changes, from time to time."""
        if self.tls is not None:
            interval_ms = self._context.config.integer("kavka.ssl.reload.interval.ms")
            periodic_tasks.run_every(interval_ms, self.tls.reload_files)

    def expire_tokens(
        self, periodic_tasks: PeriodicTasks, is_controller: Callable[[], bool]
    ) -> None:
        """Remove delegation tokens that have expired, from time to time, while this broker is the controller."""
        tokens = self.tokens
        if tokens is None:
            return

        async def remove_expired_tokens() -> None:
            if is_controller():
                await tokens.remove_expired()

        interval_ms = self._context.config.integer("delegation.token.expiry.check.interval.ms")
        periodic_tasks.run_every(interval_ms, remove_expired_tokens)

    def session_renewed(self) -> None:
        """Note that the registry's session is another one."""
        if self.tokens is not None:
            self.tokens.session_renewed()
        if self.access_control is not None:
            self.access_control.session_renewed()

    async def stop(self) -> None:
        """Stop following changes, and write what is to be written."""
        if self.tokens is not None:
            await self.tokens.stop()
        if self.access_control is not None:
            await self.access_control.stop()
