"""TLS of a broker: of its listeners, and of its connections to other brokers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from kavka.broker.configs.broker_config import Endpoint
from kavka.broker.configs.listener_settings import ListenerSettings
from kavka.broker.context import BrokerContext
from kavka.io import ClientTls
from kavka.net.tls.client import ReloadableClientTls
from kavka.net.tls.contexts import ReloadableContext
from kavka.net.tls.own_handshake import own_handshake_fault
from kavka.net.tls.server import ListenerTls
from kavka.net.tls.settings import TlsSettings, parse_settings
from kavka.settings.declaration import InvalidSetting
from kavka.values import replace

log = logging.getLogger(__name__)


class BrokerTls:
    """The TLS of each listener, and of connections to other brokers; reloaded when settings or files change."""

    def __init__(self, context: BrokerContext) -> None:
        """Read no store yet."""
        self._config = context.config
        self._configs = context.effective_configs
        self._context = context
        self._listeners: dict[str, ListenerTls] = {}
        self._to_brokers: ReloadableClientTls | None = None
        self._configs.on_broker_change.append(self._settings_changed)
        self._configs.broker_checks.append(self._fault)

    def of_listener(self, endpoint: Endpoint) -> ListenerTls | None:
        """Return the TLS of a listener, None for one without. Raise InvalidSetting."""
        if not endpoint.is_encrypted:
            return None
        tls = self.of_name(endpoint.name)
        asked = self._configs.listener(endpoint.name).text("ssl.client.auth")
        if tls.reloadable.settings.client_auth != asked:
            log.warning("ssl.client.auth without effect with SASL_SSL listener=%s", endpoint.name)
        return tls

    def of_name(self, name: str) -> ListenerTls:
        """Return the TLS by the settings of the listener of this name. Raise InvalidSetting."""
        settings = self._settings(name)
        found = self._listeners[name] = ListenerTls(
            name,
            settings,
            self._config.integer("kavka.ssl.max.handshakes"),
            self._config.integer("kavka.ssl.handshake.timeout.ms"),
        )
        return found

    def remove(self, name: str) -> None:
        """Forget a listener that is closed."""
        self._listeners.pop(name, None)

    def failures(self, name: str) -> int:
        """Return how many handshakes of clients of a listener failed since the start."""
        found = self._listeners.get(name)
        return 0 if found is None else found.failures

    def to_brokers(self) -> ClientTls | None:
        """Return the TLS of connections to other brokers, None without. Raise InvalidSetting."""
        name = self._config.inter_broker_listener
        if any(one.name == name and one.is_encrypted for one in self._context.endpoints.listeners):
            settings = self._settings(name)
            self._to_brokers = ReloadableClientTls(settings, "other brokers")
            self._check_between_brokers(settings)
        return self._to_brokers

    def _check_between_brokers(self, settings: TlsSettings) -> None:
        """Raise InvalidSetting where brokers with these stores could not connect to each other."""
        if self._context.has_own_registry:
            return  # there are no others
        fault = own_handshake_fault(settings)
        if fault is not None:
            raise settings.trust_store.invalid(
                f"brokers with these stores could not connect to each other: {fault}"
            )

    async def reload_files(self) -> None:
        """Use the files as they are now for connections from now on; to be called from time to time."""
        for tls in list(self._listeners.values()):
            await tls.reloadable.refresh()

    async def _fault(self, overrides: Mapping[str, str]) -> str | None:
        """Return why dynamic overrides of this broker could not be applied: a store cannot be used, say."""
        try:
            for name, tls in list(self._listeners.items()):
                merged = self._configs.merged_listener(name, overrides)
                settings = tls_settings(merged, self._protocol(name))
                if settings == tls.reloadable.settings:
                    continue
                await asyncio.to_thread(tls.reloadable.made, settings)
                if name == self._config.inter_broker_listener:
                    await asyncio.to_thread(self._check_between_brokers, settings)
        except InvalidSetting as error:
            return str(error)
        return None

    def _settings_changed(self) -> None:
        for name, tls in self._listeners.items():
            self._configure(tls.reloadable, name)
        if self._to_brokers is not None:
            self._configure(self._to_brokers, self._config.inter_broker_listener)

    def _configure(self, tls: ReloadableContext | ReloadableClientTls, listener: str) -> None:
        try:
            settings = self._settings(listener)
        except InvalidSetting as error:
            log.error(
                "TLS settings refused, those before stay listener=%s reason=%s", listener, error
            )
            return
        if settings != tls.wanted:
            applying = asyncio.ensure_future(tls.configure(settings))
            self._configs.applications.add(applying)
            applying.add_done_callback(self._configs.applications.discard)

    def _settings(self, listener: str) -> TlsSettings:
        return tls_settings(self._configs.listener(listener), self._protocol(listener))

    def _protocol(self, listener: str) -> str:
        # The port of the metrics is no listener: it has SSL.
        return self._context.endpoints.protocol(listener) or "SSL"


def tls_settings(settings: ListenerSettings, protocol: str) -> TlsSettings:
    """Return the settings of TLS among those of a listener. Raise InvalidSetting.

    With SASL_SSL the listener's own `ssl.client.auth` counts, and not that of all listeners: clients authenticate by
    SASL (KIP-684).
    """
    client_auth = settings.text("ssl.client.auth")
    if protocol == "SASL_SSL" and not settings.is_own("ssl.client.auth"):
        client_auth = "none"
    return replace(
        parse_settings(settings.value, client_auth),
        allows_dn_changes=settings.value("ssl.allow.dn.changes") is True,
        allows_san_changes=settings.value("ssl.allow.san.changes") is True,
    )
