"""The security session of each connection, by the security protocol of its listener.

PLAINTEXT                  the client is `ANONYMOUS` (`requests.policies`)
SASL_PLAINTEXT, SASL_SSL   the client authenticates first (`sasl_connection`)
SSL                        opened by `certificate_sessions`: the owner of the client's certificate
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from kavka.broker.configs.listener_settings import ListenerSettings
from kavka.broker.context import BrokerContext
from kavka.broker.requests.session import Ended, Session, SessionRefused
from kavka.broker.security.sasl_connection import SaslConnection, SaslListener
from kavka.broker.security.sasl_mechanisms import Mechanisms
from kavka.broker.security.scram_credentials import ScramCredentials
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS
from kavka.net.bounded_log import BoundedLog
from kavka.net.connection import Connection
from kavka.net.frame_share import FrameShare

if TYPE_CHECKING:
    from kavka.broker.security.delegation_tokens import DelegationTokens

log = logging.getLogger(__name__)

_SECRET_BYTES = 32
_MAX_REASON = 512
"""Characters of a logged reason: it may have the name that a client without a credential gave, half a megabyte."""


class SaslSessions:
    """Opens the sessions of connections through listeners with SASL."""

    def __init__(self, context: BrokerContext, tokens: DelegationTokens | None = None) -> None:
        """Begin without mechanisms: `configure` reads them."""
        self._context = context
        config = context.config
        self.credentials = ScramCredentials(context.random.random_bytes(_SECRET_BYTES))
        self.observers: list[Ended] = []
        """Called after each authentication."""
        self.counts: Counter[tuple[str, str, bool]] = Counter()
        """Authentications, by listener, mechanism, and whether they succeeded."""
        self._log = BoundedLog(log)
        self._share = FrameShare(config.integer("kavka.unauthenticated.max.bytes"))
        self._mechanisms = Mechanisms(self.credentials, tokens, context.clock, context.random)
        self._sasl: dict[str, SaslListener] = {}

    def configure(self) -> None:
        """Read the settings of all listeners. Raise InvalidSetting where no client could authenticate.

        To be called before the first connection: connections stay with the mechanisms of their beginning.
        """
        self._sasl = {
            endpoint.name: self._listener(self._context.effective_configs.listener(endpoint.name))
            for endpoint in self._context.endpoints.listeners
            if endpoint.has_sasl
        }

    def check(self, settings: ListenerSettings) -> None:
        """Raise InvalidSetting where no client could authenticate at a listener with these settings."""
        self._mechanisms.of(settings)

    def add(self, name: str) -> None:
        """Read the settings of a listener that is about to be opened. Raise InvalidSetting."""
        self._sasl[name] = self._listener(self._context.effective_configs.listener(name))

    def remove(self, name: str) -> None:
        """Forget a listener that is closed."""
        self._sasl.pop(name, None)

    def _listener(self, settings: ListenerSettings) -> SaslListener:
        return SaslListener(
            self._mechanisms.of(settings),
            self._context.clock,
            settings.integer("sasl.server.max.receive.size"),
            self._share,
            settings.integer("connection.failed.authentication.delay.ms"),
            self._ended,
        )

    @property
    def uses_credentials(self) -> bool:
        """Return whether any listener offers SCRAM."""
        return any(
            name in SCRAM_MECHANISMS for sasl in self._sasl.values() for name in sasl.mechanisms
        )

    async def start(self) -> None:
        """Read the users' credentials. Raise ConnectionError."""
        if self.uses_credentials:
            await self.credentials.load(self._context.registry)

    async def entity_changed(self, path: str) -> None:
        """Read a user again, if `path` below `/config` is that of one. Raise ConnectionError."""
        if self.uses_credentials:
            await self.credentials.entity_changed(self._context.registry, path)

    def open(self, connection: Connection) -> Session:
        """Return the session of a new connection. Raise SessionRefused where its listener was just closed."""
        name = connection.listener_name
        sasl, protocol = self._sasl.get(name), self._context.endpoints.protocol(name)
        if sasl is None or protocol is None:
            raise SessionRefused(f"the listener {name} is closed")
        session = Session(name, protocol, connection.peer_host, is_authenticated=False)
        session.sasl = SaslConnection(sasl, session, connection)
        return session

    def _ended(self, session: Session, mechanism: str, failure: str | None) -> None:
        # A mechanism that is not offered is the client's text, of which there may be any number.
        sasl = self._sasl.get(session.listener_name)
        known = mechanism if sasl is not None and mechanism in sasl.mechanisms else ""
        self.counts[session.listener_name, known, failure is None] += 1
        if failure is not None:
            self._log.write(
                session.host,
                "authentication failed peer=%s listener=%s mechanism=%s reason=%s",
                session.host,
                session.listener_name,
                known or "unknown",
                failure[:_MAX_REASON],
            )
        for observer in self.observers:
            observer(session, mechanism, failure)
