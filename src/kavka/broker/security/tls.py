"""TLS of a broker: of its listeners, and of its connections to other brokers."""

from __future__ import annotations

import logging
import ssl
import time

from kavka.broker.configs.broker_config import Endpoint
from kavka.broker.configs.effective_configs import Configs
from kavka.broker.context import BrokerContext
from kavka.io import ClientTls
from kavka.net.tls.client import FollowingClientTls
from kavka.net.tls.contexts import FollowedContext, server_context
from kavka.net.tls.settings import TlsSettings, parse_settings
from kavka.settings.declaration import InvalidSetting

log = logging.getLogger(__name__)

_LOGGED_AT_ONCE = 20
_LOG_WINDOW_S = 10.0


class BrokerTls:
    """The TLS of each listener, and of connections to other brokers; it follows changes of settings and files."""

    def __init__(self, context: BrokerContext) -> None:
        """Read no store yet."""
        self._config = context.config
        self._configs = context.configs
        self._listeners: dict[str, ListenerTls] = {}
        self._to_brokers: FollowingClientTls | None = None
        self._configs.on_broker_change.append(self._settings_changed)

    def of_listener(self, endpoint: Endpoint) -> ListenerTls | None:
        """Return the TLS of a listener, None for one without. Raise InvalidSetting."""
        if not endpoint.is_encrypted:
            return None
        settings = self._settings(endpoint.name)
        found = self._listeners[endpoint.name] = ListenerTls(
            endpoint.name,
            settings,
            self._config.integer("kavka.ssl.max.handshakes"),
            self._config.integer("kavka.ssl.handshake.timeout.ms"),
        )
        return found

    def to_brokers(self) -> ClientTls | None:
        """Return the TLS of connections to other brokers, None without. Raise InvalidSetting."""
        name = self._config.inter_broker_listener
        if any(one.name == name and one.is_encrypted for one in self._config.listeners):
            self._to_brokers = FollowingClientTls(self._settings(name), "other brokers")
        return self._to_brokers

    async def follow_files(self) -> None:
        """Have connections from now on use the files as they are now; to be called from time to time."""
        for tls in self._listeners.values():
            tls.followed.refresh()

    def _settings_changed(self) -> None:
        for name, tls in self._listeners.items():
            self._configure(tls.followed, name)
        if self._to_brokers is not None:
            self._configure(self._to_brokers, self._config.inter_broker_listener)

    def _configure(self, tls: FollowedContext | FollowingClientTls, listener: str) -> None:
        try:
            tls.configure(self._settings(listener))
        except InvalidSetting as error:
            log.error(
                "TLS settings refused, those before stay listener=%s reason=%s", listener, error
            )

    def _settings(self, listener: str) -> TlsSettings:
        return tls_settings(self._configs, listener)


def tls_settings(configs: Configs, listener: str) -> TlsSettings:
    """Return the settings of TLS now in force for a listener. Raise InvalidSetting, which names its own setting."""
    values = configs.listener(listener)
    return parse_settings(values.get, str(values["ssl.client.auth"]))


class ListenerTls:
    """Implements `io.ServerTls` for one listener."""

    def __init__(
        self, name: str, settings: TlsSettings, max_handshakes: int, handshake_timeout_ms: int
    ) -> None:
        """Read the stores. Raise InvalidSetting."""
        self._name = name
        self.followed = FollowedContext(settings, server_context, name)
        self.max_handshakes = max_handshakes
        self.handshake_timeout_ms = handshake_timeout_ms
        self.failures = 0
        """Handshakes that failed since the start."""
        self._window_ends = 0.0
        self._in_window = 0

    def context(self) -> ssl.SSLContext:
        """Return the context of the next connection."""
        return self.followed.current

    def handshake_failed(self, host: str, reason: str) -> None:
        """Count a failure, and log it unless there are many."""
        self.failures += 1
        now = time.monotonic()
        if now >= self._window_ends:
            if self._in_window > _LOGGED_AT_ONCE:
                unlogged = self._in_window - _LOGGED_AT_ONCE
                log.warning("TLS handshakes failed listener=%s unlogged=%d", self._name, unlogged)
            self._window_ends, self._in_window = now + _LOG_WINDOW_S, 0
        self._in_window += 1
        if self._in_window <= _LOGGED_AT_ONCE:
            log.warning(
                "TLS handshake failed listener=%s peer=%s reason=%s", self._name, host, reason
            )
