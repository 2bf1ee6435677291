"""The listeners of a broker: sockets on which it accepts connections of clients and brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from kavka.broker.configs.endpoints import Endpoint
from kavka.broker.context import BrokerContext
from kavka.broker.lazy import Lazy
from kavka.io import Listener, ServerTls
from kavka.net.connection import Connection, FrameHandler, Limits
from kavka.net.request_budget import RequestBudget

if TYPE_CHECKING:
    from kavka.broker.lifecycle.listener_changes import ListenerChanges, ListenerSecurity

_RECEIVE_BYTES = 512 * 1024


class Listeners:
    """The listeners that the settings name; those that change while the broker runs by `listener_changes`."""

    def __init__(
        self,
        context: BrokerContext,
        frame_handler: FrameHandler,
        request_budget: RequestBudget,
        security: ListenerSecurity,
        connections: Callable[[], Iterable[Connection]],
    ) -> None:
        """Listen on nothing yet; requests are given to `frame_handler`. `connections` are those that are open."""
        self._security = security
        self._context = context
        self._config = config = context.config
        self._limits = Limits(
            config.integer("socket.request.max.bytes"),
            config.integer("kavka.connection.max.in.flight"),
            config.integer("kavka.connection.max.in.flight.bytes"),
        )
        self._chunk = bytearray(_RECEIVE_BYTES)
        self._network = context.environment.network
        self._frame_handler = frame_handler
        self._request_budget = request_budget
        self._listeners: dict[str, Listener] = {}
        self._ports: dict[str, int] = {}
        """That were taken, also by listeners that are closed."""
        self._connections = connections
        self._changes = Lazy(self._make_changes)
        self._advertise: Callable[[], Awaitable[None]] | None = None
        """None before the broker is registered, and when it stops: then listeners stay as they are."""
        context.effective_configs.on_broker_change.append(self._settings_changed)
        context.effective_configs.broker_checks.append(
            lambda texts: self._changes.get().fault(texts)
        )

    async def bind(self) -> list[Endpoint]:
        """Open the listeners; return what is advertised, with the ports that were taken for 0.

        Raise OSError, and InvalidSetting where a key or trust store cannot be used.
        """
        for endpoint in self._context.endpoints.listeners:
            await self.open(endpoint, self._security.tls_of(endpoint))
        return self.advertised()

    def advertised(self) -> list[Endpoint]:
        """Return what is advertised, with the ports that were taken for 0, and this machine's name for no host."""
        return [
            Endpoint(
                shown.name,
                shown.host or self._config.host_name(),
                shown.port or self._ports[shown.name],
                shown.protocol,
            )
            for shown in self._context.endpoints.advertised
        ]

    async def open(self, endpoint: Endpoint, tls: ServerTls | None) -> None:
        """Open one listener. Raise OSError."""

        def make() -> Connection:
            return Connection(
                self._frame_handler,
                endpoint.name,
                self._limits,
                self._chunk,
                self._request_budget,
                is_admitted=tls is not None,
            )

        listener = await self._network.listen(endpoint.host, endpoint.port, make, tls)
        self._listeners[endpoint.name] = listener
        self._ports[endpoint.name] = listener.port

    def close_one(self, name: str) -> None:
        """Accept no more connections by one listener; those that there are stay."""
        listener = self._listeners.pop(name, None)
        if listener is not None:
            listener.close()

    # -- changes

    def load(self) -> None:
        """Take the listeners that are stored in place of those of the file."""
        configs = self._context.effective_configs
        if configs.stores_listeners:
            self._changes.get().load()
        configs.open_listeners = self._context.endpoints.names

    def follow_settings(self, advertise: Callable[[], Awaitable[None]]) -> None:
        """Open and close listeners from now on when their settings change, and as they have since `load`.

        `advertise` is awaited when other listeners are advertised than before.
        """
        self._advertise = advertise
        self._settings_changed()

    def _settings_changed(self) -> None:
        is_concerned = (
            self._changes.made is not None or self._context.effective_configs.stores_listeners
        )
        if self._advertise is not None and is_concerned:
            self._changes.get().settings_changed()

    def _make_changes(self) -> ListenerChanges:
        from kavka.broker.lifecycle.listener_changes import ListenerChanges

        async def advertise() -> None:
            if self._advertise is not None:
                await self._advertise()

        return ListenerChanges(
            self._context, self._security, self.open, self.close_one, self._connections, advertise
        )

    async def stop(self) -> None:
        """Change nothing more."""
        self._advertise = None
        if self._changes.made is not None:
            await self._changes.made.stop()

    def set_accepting(self, name: str, *, accepts: bool) -> None:
        """Accept connections by one listener, or leave them waiting."""
        listener = self._listeners.get(name)
        if listener is not None:
            if accepts:
                listener.resume_accepting()
            else:
                listener.pause_accepting()

    def close(self) -> None:
        """Accept no more connections; those that there are stay."""
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
