"""The parts that protect a broker: sessions by SASL, delegation tokens, TLS, access control.

Each is made, and imported, where settings ask for it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kavka.broker.configs.broker_config import METRICS_LISTENER, Endpoint, has_sasl
from kavka.broker.context import BrokerContext
from kavka.settings.access import SECRET
from kavka.settings.declaration import InvalidSetting
from kavka.settings.dynamic import is_of_a_listener
from kavka.settings.sasl import OLD_TOKEN_KEY, TOKEN_KEY
from kavka.values import replace

if TYPE_CHECKING:
    from kavka.broker.control.config_changes import ConfigChanges
    from kavka.broker.lifecycle.periodic_tasks import PeriodicTasks
    from kavka.broker.partitions.replica import Replica
    from kavka.broker.requests.dispatcher import Dispatcher
    from kavka.broker.security.access_control import AccessControl
    from kavka.broker.security.audit_topic_writer import AuditTopicWriter
    from kavka.broker.security.authentications import Authentications
    from kavka.broker.security.certificate_sessions import CertificateSessions
    from kavka.broker.security.delegation_tokens import DelegationTokens
    from kavka.broker.security.sasl_sessions import SaslSessions
    from kavka.broker.security.tls import BrokerTls
    from kavka.core.controller.topics import NewTopic
    from kavka.errors import ErrorCode
    from kavka.ids import TopicPartition
    from kavka.io import ServerTls


log = logging.getLogger(__name__)


class SecurityParts:
    """Makes the parts as policies of the dispatcher, starts and stops them."""

    def __init__(
        self,
        context: BrokerContext,
        dispatcher: Dispatcher,
        config_changes: ConfigChanges,
        find_replica: Callable[[TopicPartition], Replica | ErrorCode],
        create_topic: Callable[[NewTopic], Awaitable[object]],
    ) -> None:
        """Make them before the first connection: what it may do is decided when it is opened. Raise InvalidSetting.

        `find_replica` and `create_topic` serve the topic of the audit.
        """
        self._context = context
        self._dispatcher = dispatcher
        self.tokens: DelegationTokens | None = None
        self.sasl_sessions: SaslSessions | None = None
        self.tls: BrokerTls | None = None
        self.certificate_sessions: CertificateSessions | None = None
        self.access_control: AccessControl | None = None
        self.authentications: Authentications | None = None
        """The counters of authentications; None where no listener has SASL or TLS."""
        self._make_tokens()
        self._make_sessions(config_changes)
        self._make_tls()
        self._count_authentications()
        self._make_access_control(find_replica, create_topic)
        try:
            self._configure()
        except InvalidSetting:
            # With the secret, what is stored in the registry may be what the file lacks.
            if not context.config.optional(SECRET):
                raise

    def _configure(self) -> None:
        """Read the settings of listeners as they are now. Raise InvalidSetting."""
        context = self._context
        if self.sasl_sessions is not None:
            from kavka.broker.security.inter_broker_login import inter_broker_login

            self.sasl_sessions.configure()
            context.peer_security = replace(context.peer_security, sasl=inter_broker_login(context))
        if self.tls is not None:
            context.peer_security = replace(context.peer_security, tls=self.tls.to_brokers())
        if self.certificate_sessions is not None:
            self.certificate_sessions.configure()

    def _is_stored(self) -> bool:
        """Return whether any setting of security is stored in the registry."""
        configs = self._context.effective_configs
        names = {*configs.broker_overrides(default=True), *configs.broker_overrides(default=False)}
        return any(is_of_a_listener(name) or name.startswith(("sasl.", "ssl.")) for name in names)

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
        from kavka.broker.security.sasl_sessions import SaslSessions

        self.sasl_sessions = SaslSessions(context, self.tokens)
        config_changes.on_entity_change.append(self.sasl_sessions.entity_changed)
        config_changes.notifications.reloads.append(self.sasl_sessions.start)
        policies = replace(self._dispatcher.policies, open_session=self.sasl_sessions.open)
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
        if any(endpoint.protocol == "SSL" for endpoint in listeners):
            from kavka.broker.security.certificate_sessions import CertificateSessions

            policies = self._dispatcher.policies
            self.certificate_sessions = CertificateSessions(context, policies.open_session)
            self._dispatcher.set_policies(
                replace(policies, open_session=self.certificate_sessions.open)
            )

    def _count_authentications(self) -> None:
        for sessions in (self.sasl_sessions, self.certificate_sessions):
            if sessions is None:
                continue
            if self.authentications is None:
                from kavka.broker.security.authentications import Authentications

                self.authentications = Authentications()
            sessions.observers.append(self.authentications.ended)

    def _make_access_control(
        self,
        find_replica: Callable[[TopicPartition], Replica | ErrorCode],
        create_topic: Callable[[NewTopic], Awaitable[object]],
    ) -> None:
        """Make the authorizer and the audit."""
        config = self._context.config
        if not (config.text("authorizer.class.name") or config.optional("kavka.audit.log")):
            return
        from kavka.broker.security.access_control import AccessControl

        writer: AuditTopicWriter | None = None
        if config.optional("kavka.audit.topic"):
            from kavka.broker.security.audit_topic_writer import AuditTopicWriter

            writer = AuditTopicWriter(self._context, find_replica, create_topic)
        self.access_control = AccessControl(self._context, writer, self.tokens)
        policies = self.access_control.policies(self._dispatcher.policies)
        self._dispatcher.set_policies(policies)
        audit = self.access_control.audit
        for sessions in (self.sasl_sessions, self.certificate_sessions):
            if sessions is not None and audit is not None:
                sessions.observers.append(audit.authentication_ended)

    def tls_of(self, endpoint: Endpoint) -> ServerTls | None:
        """Return the TLS of a listener, None for one without. Raise InvalidSetting where a store cannot be used."""
        tls = None if self.tls is None else self.tls.of_listener(endpoint)
        if tls is not None:
            tls.admission = self._dispatcher
        return tls

    def tls_of_metrics(self) -> ServerTls | None:
        """Return the TLS of the metrics' port, None without. Raise InvalidSetting where a store cannot be used."""
        if not self._context.config.serves_metrics_with_tls:
            return None
        assert self.tls is not None
        return self.tls.of_name(METRICS_LISTENER)

    def handshake_failures(self, listener: str) -> int:
        """Return how many TLS handshakes of clients of a listener failed since the start."""
        return 0 if self.tls is None else self.tls.failures(listener)

    def internal_topic(self, name: str) -> NewTopic | None:
        """Return the topic of the audit if this is its name."""
        audit = None if self.access_control is None else self.access_control.audit
        if audit is None or audit.writer is None or audit.writer.name != name:
            return None
        return audit.writer.new_topic()

    async def start(self) -> None:
        """Load tokens, credentials and ACLs before a request is served, after the dynamic settings were read.

        Raise ConnectionError, UnreadableAcls, OSError, and InvalidSetting where stored settings do not fit.
        """
        if self._is_stored() or self._context.config.optional(SECRET):
            self._configure()
        if self.tokens is not None:
            await self.tokens.start()
        if self.sasl_sessions is not None:
            await self.sasl_sessions.start()
        if self.access_control is not None:
            await self.access_control.start()

    def repeat(self, periodic_tasks: PeriodicTasks, is_controller: Callable[[], bool]) -> None:
        """Look at files of key and trust stores for changes, and remove expired tokens as the controller."""
        config, tokens = self._context.config, self.tokens
        if self.tls is not None:
            interval_ms = config.integer("kavka.ssl.reload.interval.ms")
            periodic_tasks.run_every(interval_ms, self.tls.reload_files)
        if tokens is None:
            return

        async def remove_expired_tokens() -> None:
            if is_controller():
                await tokens.remove_expired()

        interval_ms = config.integer("delegation.token.expiry.check.interval.ms")
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
