"""Listeners that are added and removed while the broker runs, by the dynamic settings of their names and addresses.

    listeners removed    no more is accepted; connections are closed, those with a request in work a second later
    listeners added      with the security that the settings of the listener say, then opened
    advertised           written to the broker's registration, from which the controller tells all brokers

A listener that stays keeps its address and its protocol until the next start. One that cannot be opened is logged, and
left out until the settings of the broker change again. Source: KIP-226; Kafka's `DynamicListenerConfig`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Protocol

from kavka.broker.configs.endpoints import SETTINGS, Endpoint, Endpoints, change_fault, endpoints_of
from kavka.broker.configs.listener_settings import ListenerSettings
from kavka.broker.context import BrokerContext
from kavka.io import ServerTls
from kavka.net.connection import Connection
from kavka.settings.declaration import InvalidSetting

log = logging.getLogger(__name__)

_LAST_RESPONSES_S: Final = 1.0
"""Time for requests in work of a removed listener: the change itself may have come through it."""


class ListenerSecurity(Protocol):
    """The security of listeners: `security.security_parts`."""

    async def check(self, endpoint: Endpoint, settings: ListenerSettings) -> None:
        """Raise InvalidSetting where a listener with these settings could not be opened."""
        ...

    async def add(self, endpoint: Endpoint) -> ServerTls | None:
        """Read the settings of a listener that is about to be opened; return its TLS, None for one without.

        Raise InvalidSetting, ConnectionError.
        """
        ...

    def tls_of(self, endpoint: Endpoint) -> ServerTls | None:
        """Return the TLS of a listener that is opened at the start. Raise InvalidSetting."""
        ...

    def remove(self, name: str) -> None:
        """Forget a listener that is closed."""
        ...


class ListenerChanges:
    """Opens and closes listeners as settings say."""

    def __init__(
        self,
        context: BrokerContext,
        security: ListenerSecurity,
        open_listener: Callable[[Endpoint, ServerTls | None], Awaitable[None]],
        close_listener: Callable[[str], None],
        connections: Callable[[], Iterable[Connection]],
        advertise: Callable[[], Awaitable[None]],
    ) -> None:
        """Begin with those of the context; `advertise` writes them to the registration."""
        self._context = context
        self._open = open_listener
        self._close = close_listener
        self._security = security
        self._connections = connections
        self._advertise = advertise
        self._applied = context.endpoints
        """The listeners that were asked for last, and carried out as far as they can be."""
        self._task: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Take the listeners that are stored in place of those of the file, before any is opened."""
        context = self._context
        try:
            wanted = endpoints_of(context.effective_configs.broker_values())
            if fault := change_fault(wanted, wanted, context.config.inter_broker_listener):
                raise InvalidSetting("advertised.listeners", wanted.names, fault)
        except InvalidSetting as error:
            log.error("stored listeners refused, those of the file are opened reason=%s", error)
            wanted = context.endpoints
        self._applied = wanted
        context.set_endpoints(wanted)

    async def fault(self, overrides: Mapping[str, str]) -> str | None:
        """Return why dynamic overrides of this broker could not be applied to its listeners."""
        configs, before = self._context.effective_configs, self._context.endpoints
        present = configs.broker_overrides(default=False)
        if all(overrides.get(name) == present.get(name) for name in SETTINGS):
            return None
        try:
            after = endpoints_of(configs.effective_broker(overrides))
            fault = change_fault(before, after, self._context.config.inter_broker_listener)
            if fault is None:
                for endpoint in _added(before, after):
                    settings = configs.merged_listener(endpoint.name, overrides)
                    await self._security.check(endpoint, settings)
        except InvalidSetting as error:
            return str(error)
        return fault

    def settings_changed(self) -> None:
        """Open and close listeners if others are wanted now than before; to be called while the broker runs."""
        if self._task is not None and not self._task.done():
            return  # it will see the change
        if self._wanted() != self._applied or self._is_lacking():
            self._task = asyncio.get_running_loop().create_task(self._apply())

    def _is_lacking(self) -> bool:
        """Return whether a listener could not be opened: another setting may have been the reason."""
        return self._context.endpoints.names != self._applied.names

    def _wanted(self) -> Endpoints:
        """Return the listeners that settings say; those that there are where it cannot be followed."""
        context = self._context
        try:
            wanted = endpoints_of(context.effective_configs.broker_values())
        except InvalidSetting as error:
            fault: str | None = str(error)
        else:
            inter_broker = context.config.inter_broker_listener
            fault = change_fault(context.endpoints, wanted, inter_broker)
        if fault is None:
            return wanted
        log.error("changed listeners refused, those before stay reason=%s", fault)
        return self._applied

    async def _apply(self) -> None:
        """Open and close until the listeners are those that settings say."""
        while True:
            wanted = self._wanted()
            before = self._context.endpoints
            self._warn_of_addresses(before, wanted)
            self._applied = wanted
            self._context.set_endpoints(wanted)
            for endpoint in _added(wanted, before):
                self._remove(endpoint.name)
            for endpoint in _added(before, wanted):
                await self._add(endpoint)
            self._context.effective_configs.open_listeners = self._context.endpoints.names
            if self._context.endpoints != before:
                await self._advertise()
            if self._wanted() == wanted:
                return

    async def _add(self, endpoint: Endpoint) -> None:
        name = endpoint.name
        try:
            await self._open(endpoint, await self._security.add(endpoint))
        except (InvalidSetting, OSError) as error:
            log.error("listener not opened listener=%s reason=%s", endpoint, error)
            self._security.remove(name)
            self._context.set_endpoints(self._context.endpoints.without(name))
        else:
            log.info("listener opened listener=%s protocol=%s", endpoint, endpoint.protocol)

    def _remove(self, name: str) -> None:
        self._close(name)
        self._security.remove(name)
        loop = asyncio.get_running_loop()
        closed = [one for one in self._connections() if one.listener_name == name]
        for connection in closed:
            if connection.is_idle:
                connection.close()
            else:
                loop.call_later(_LAST_RESPONSES_S, connection.close)
        log.info("listener removed listener=%s connections=%d", name, len(closed))

    def _warn_of_addresses(self, before: Endpoints, after: Endpoints) -> None:
        """Warn of other addresses of listeners that stay."""
        old = {endpoint.name: endpoint for endpoint in before.listeners}
        for endpoint in after.listeners:
            if endpoint != old.get(endpoint.name, endpoint):
                log.warning(
                    "listener keeps its address until the next start listener=%s stored=%s",
                    old[endpoint.name],
                    endpoint,
                )

    async def stop(self) -> None:
        """Change nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _added(before: Endpoints, after: Endpoints) -> list[Endpoint]:
    """Return the listeners that are in `after` alone."""
    known = before.names
    return [endpoint for endpoint in after.listeners if endpoint.name not in known]
