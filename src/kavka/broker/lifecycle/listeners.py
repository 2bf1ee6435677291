"""The listeners of a broker: sockets on which it accepts connections of clients and brokers."""

from __future__ import annotations

from collections.abc import Callable

from kavka.broker.configs.broker_config import Endpoint
from kavka.broker.context import BrokerContext
from kavka.io import Listener, ServerTls
from kavka.net.connection import Connection, FrameHandler, Limits
from kavka.net.request_budget import RequestBudget

_RECEIVE_BYTES = 256 * 1024


class Listeners:
    """The listeners that the settings name."""

    def __init__(
        self,
        context: BrokerContext,
        frame_handler: FrameHandler,
        request_budget: RequestBudget,
        tls_of: Callable[[Endpoint], ServerTls | None],
    ) -> None:
        """Listen on nothing yet; requests are given to `frame_handler`. `tls_of` gives the TLS of a listener."""
        self._tls_of = tls_of
        self._config = context.config
        self._network = context.environment.network
        self._frame_handler = frame_handler
        self._request_budget = request_budget
        self._listeners: dict[str, Listener] = {}

    async def bind(self) -> list[Endpoint]:
        """Open the listeners; return what is advertised, with the ports that were taken for 0.

        Raise OSError, and InvalidSetting where a key or trust store cannot be used.
        """
        config = self._config
        limits = Limits(
            config.integer("socket.request.max.bytes"),
            config.integer("kavka.connection.max.in.flight"),
            config.integer("kavka.connection.max.in.flight.bytes"),
        )
        bound: dict[str, int] = {}
        chunk = bytearray(_RECEIVE_BYTES)
        for endpoint in config.listeners:
            tls = self._tls_of(endpoint)
            is_admitted = tls is not None

            def make(name: str = endpoint.name, is_admitted: bool = is_admitted) -> Connection:
                return Connection(
                    self._frame_handler,
                    name,
                    limits,
                    chunk,
                    self._request_budget,
                    is_admitted=is_admitted,
                )

            listener = await self._network.listen(endpoint.host, endpoint.port, make, tls)
            self._listeners[endpoint.name] = listener
            bound[endpoint.name] = listener.port
        return [
            Endpoint(
                shown.name,
                shown.host or config.host_name(),
                shown.port or bound[shown.name],
                shown.protocol,
            )
            for shown in config.advertised
        ]

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
