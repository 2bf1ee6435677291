"""Connections of coordinators, and of leaders to coordinators, to other brokers."""

from __future__ import annotations

from typing import Final

from kavka.broker.context import BrokerContext
from kavka.ids import BrokerId
from kavka.net.peer import Peer

_CONNECT_MS: Final = 10_000


class BrokerConnection:
    """A connection to another broker over the listener that brokers use; it is opened when it is needed."""

    def __init__(
        self, context: BrokerContext, broker_id: BrokerId, purpose: str, timeout_ms: int
    ) -> None:
        """Connect not yet; `purpose` is in the client id, `timeout_ms` is that of a request."""
        self.broker_id = broker_id
        self.timeout_ms = timeout_ms
        self._context = context
        self._purpose = purpose
        self._peer: Peer | None = None

    async def connected(self) -> Peer:
        """Return an open connection, a new one if need be. Raise OSError, KafkaError, CorruptFrame."""
        context = self._context
        if self._peer is None or self._peer.is_closed:
            live = context.metadata.brokers.get(self.broker_id)
            endpoint = None if live is None else live.endpoint(context.config.inter_broker_listener)
            if endpoint is None:
                raise ConnectionError(f"broker {self.broker_id} is not known to be alive")
            self._peer = await Peer.connect(
                context.environment.network,
                endpoint.host,
                endpoint.port,
                client_id=f"{context.broker_id}-{self._purpose}",
                timeout_ms=min(_CONNECT_MS, self.timeout_ms),
                security=context.peer_security,
            )
        return self._peer

    def abort(self) -> None:
        """Close the connection at once; a waiting request raises ConnectionError."""
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.abort()


class ConnectionPool:
    """The connections to one broker that have one request each at a time."""

    def __init__(
        self,
        context: BrokerContext,
        broker_id: BrokerId,
        purpose: str,
        timeout_ms: int,
        max_free: int,
    ) -> None:
        """Keep up to `max_free` connections open while they have no request."""
        self._context = context
        self._broker_id = broker_id
        self._purpose = purpose
        self._timeout_ms = timeout_ms
        self._max_free = max_free
        self._all: dict[BrokerConnection, None] = {}
        self._free: list[BrokerConnection] = []

    def take(self) -> BrokerConnection:
        """Return a connection that has no request; it may have to connect first."""
        if self._free:
            return self._free.pop()
        connection = BrokerConnection(
            self._context, self._broker_id, self._purpose, self._timeout_ms
        )
        self._all[connection] = None
        return connection

    def release(self, connection: BrokerConnection) -> None:
        """Make a connection available to another request."""
        if len(self._free) < self._max_free:
            self._free.append(connection)
        else:
            connection.abort()
            del self._all[connection]

    def abort(self) -> None:
        """Close all connections."""
        for connection in self._all:
            connection.abort()
