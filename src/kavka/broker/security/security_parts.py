"""The parts that protect a broker: sessions by SASL, delegation tokens, TLS, access control.

Each is made, and imported, where settings ask for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kavka.broker.configs.broker_config import METRICS_LISTENER
from kavka.broker.configs.endpoints import Endpoint, Endpoints
from kavka.broker.context import BrokerContext
from kavka.broker.requests.policies import plaintext_session
from kavka.broker.requests.session import Session, SessionRefused
from kavka.settings.access import SECRET
from kavka.settings.sasl import OLD_TOKEN_KEY, TOKEN_KEY
from kavka.values import replace

if TYPE_CHECKING:
    from kavka.broker.configs.listener_settings import ListenerSettings
    from kavka.broker.control.config_changes import ConfigChanges
    from kavka.broker.lifecycle.periodic_tasks import PeriodicTasks
    from kavka.broker.partitions.replica import Replica
    from kavka.broker.requests.dispatcher import Dispatcher
    from kavka.broker.requests.purgatory import Purgatory
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
    from kavka.net.connection import Connection


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
        produce_purgatory: Purgatory,
    ) -> None:
        """Make them before the first connection: what it may do is decided when it is opened. Raise InvalidSetting.

        `find_replica`, `create_topic` and `produce_purgatory` serve the topic of the audit.
        """
        self._context = context
        self._dispatcher = dispatcher
        self._config_changes = config_changes
        self._periodic_tasks: PeriodicTasks | None = None
        self.tokens: DelegationTokens | None = None
        self.sasl_sessions: SaslSessions | None = None
        self.tls: BrokerTls | None = None
        self.certificate_sessions: CertificateSessions | None = None
        self.access_control: AccessControl | None = None
        self.authentications: Authentications | None = None
        """The counters of authentications; None where no listener has SASL or TLS."""
        self._make_tokens()
        if context.config.serves_metrics_with_tls:
            self._make_tls()
        self._make_access_control(find_replica, create_topic, produce_purgatory)
        self.make_for(context.endpoints)
        if not context.config.optional(SECRET):
            # With the secret, what the file lacks may be stored: so it is judged at the start.
            self._configure()

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

    def make_for(self, endpoints: Endpoints) -> None:
        """Make what these listeners need and there is not yet."""
        listeners = endpoints.listeners
        if self.sasl_sessions is None and any(one.has_sasl for one in listeners):
            from kavka.broker.security.sasl_sessions import SaslSessions

            self.sasl_sessions = sessions = SaslSessions(self._context, self.tokens)
            self._config_changes.on_entity_change.append(sessions.entity_changed)
            self._config_changes.notifications.reloads.append(sessions.start)
            self._observe(sessions)
        if self.tls is None and any(one.is_encrypted for one in listeners):
            self._make_tls()
        if self.certificate_sessions is None and any(one.protocol == "SSL" for one in listeners):
            from kavka.broker.security.certificate_sessions import CertificateSessions

            self.certificate_sessions = CertificateSessions(self._context)
            self._observe(self.certificate_sessions)

    def _make_tls(self) -> None:
        from kavka.broker.security.tls import BrokerTls

        self.tls = BrokerTls(self._context)
        if self._periodic_tasks is not None:
            self._reload_files()

    def _observe(self, sessions: SaslSessions | CertificateSessions) -> None:
        """Open sessions by these as well; their authentications are counted, and written to the audit."""
        policies = replace(self._dispatcher.policies, open_session=self._open_session)
        self._dispatcher.set_policies(policies)
        if self.authentications is None:
            from kavka.broker.security.authentications import Authentications

            self.authentications = Authentications()
        sessions.observers.append(self.authentications.ended)
        audit = None if self.access_control is None else self.access_control.audit
        if audit is not None:
            sessions.observers.append(audit.authentication_ended)

    def _open_session(self, connection: Connection) -> Session:
        """Return the session of a new connection, by the protocol of its listener. Raise SessionRefused."""
        protocol = self._context.endpoints.protocol(connection.listener_name)
        if protocol == "SSL":
            assert self.certificate_sessions is not None
            return self.certificate_sessions.open(connection)
        if protocol == "PLAINTEXT":
            return plaintext_session(connection)
        if protocol is None:
            raise SessionRefused(f"the listener {connection.listener_name} is closed")
        assert self.sasl_sessions is not None
        return self.sasl_sessions.open(connection)

    def _make_access_control(
        self,
        find_replica: Callable[[TopicPartition], Replica | ErrorCode],
        create_topic: Callable[[NewTopic], Awaitable[object]],
        produce_purgatory: Purgatory,
    ) -> None:
        """Make the authorizer and the audit."""
        config = self._context.config
        if config.text("super.users") and not config.text("authorizer.class.name"):
            log.warning("super.users without authorizer.class.name: every client may do everything")
        if not (config.text("authorizer.class.name") or config.optional("kavka.audit.log")):
            return
        from kavka.broker.security.access_control import AccessControl

        writer: AuditTopicWriter | None = None
        if config.optional("kavka.audit.topic"):
            from kavka.broker.security.audit_topic_writer import AuditTopicWriter

            writer = AuditTopicWriter(self._context, find_replica, create_topic, produce_purgatory)
        self.access_control = AccessControl(self._context, writer, self.tokens)
        policies = self.access_control.policies(self._dispatcher.policies)
        self._dispatcher.set_policies(policies)

    async def check(self, endpoint: Endpoint, settings: ListenerSettings) -> None:
        """Raise InvalidSetting where a listener with these settings could not be opened."""
        if endpoint.is_encrypted:
            from kavka.broker.security.tls import tls_settings
            from kavka.net.tls.contexts import server_context

            await asyncio.to_thread(server_context, tls_settings(settings, endpoint.protocol))
        if endpoint.has_sasl:
            from kavka.broker.security.sasl_sessions import SaslSessions

            (self.sasl_sessions or SaslSessions(self._context, self.tokens)).check(settings)

    async def add(self, endpoint: Endpoint) -> ServerTls | None:
        """Read the settings of a listener that is about to be opened; return its TLS, None for one without.

        Raise InvalidSetting, ConnectionError.
        """
        self.make_for(self._context.endpoints)
        if endpoint.has_sasl:
            assert self.sasl_sessions is not None
            self.sasl_sessions.add(endpoint.name)
            await self.sasl_sessions.start()
        if endpoint.protocol == "SSL":
            assert self.certificate_sessions is not None
            self.certificate_sessions.add(endpoint.name)
        return await asyncio.to_thread(self.tls_of, endpoint) if endpoint.is_encrypted else None

    def remove(self, name: str) -> None:
        """Forget a listener that is closed."""
        for part in (self.sasl_sessions, self.certificate_sessions, self.tls):
            if part is not None:
                part.remove(name)

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
        self.make_for(self._context.endpoints)
        if self._context.effective_configs.has_overrides or self._context.config.optional(SECRET):
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
        self._periodic_tasks = periodic_tasks
        if self.tls is not None:
            self._reload_files()
        if tokens is None:
            return

        async def remove_expired_tokens() -> None:
            if is_controller():
                await tokens.remove_expired()

        interval_ms = config.integer("delegation.token.expiry.check.interval.ms")
        periodic_tasks.run_every(interval_ms, remove_expired_tokens)

    def _reload_files(self) -> None:
        assert self.tls is not None
        assert self._periodic_tasks is not None
        interval_ms = self._context.config.integer("kavka.ssl.reload.interval.ms")
        self._periodic_tasks.run_every(interval_ms, self.tls.reload_files)

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
