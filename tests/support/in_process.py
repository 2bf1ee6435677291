"""Several brokers in the test's process, with sockets between them.

Their controller is one of them (`support.cluster`), or the test (`support.replication`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.registry.local_session import LocalSession


class InProcessCluster:
    """Brokers by number, and a connection to each."""

    def __init__(self, path: Path, settings: Mapping[str, str]) -> None:
        """Start none yet. In the value of a setting `%d` stands for the broker's number."""
        self.path = path
        self.settings = settings
        self.brokers: dict[int, Broker] = {}
        self.ports: dict[int, int] = {}
        self.peers: dict[int, Peer] = {}
        self._connections: list[Peer] = []

    async def start(self, *numbers: int) -> None:
        """Start brokers; one that ran before listens on the same port."""
        for number in numbers:
            settings = {
                "broker.id": str(number),
                "listeners": f"PLAINTEXT://127.0.0.1:{self.ports.get(number, 0)}",
                "log.dirs": str(self.path / str(number)),
                "replica.fetch.backoff.ms": "50",
                **self.settings,
            }
            texts = {name: text.replace("%d", str(number)) for name, text in settings.items()}
            broker = Broker(texts, OsEnvironment(), self.open_session(number))
            (endpoint,) = await broker.start()
            self.brokers[number] = broker
            self.ports[number] = endpoint.port

    def open_session(self, number: int) -> LocalSession | None:
        """Return the session of a broker that starts; without one it has a registry of its own."""
        return None

    async def stop(self, *numbers: int) -> None:
        """Stop brokers cleanly."""
        for number in numbers:
            self.disconnect(number)
            await self.brokers.pop(number).stop()

    async def close(self) -> None:
        """Close all connections, and stop all brokers."""
        self.disconnect_all()
        await self.stop(*self.brokers)

    def disconnect_all(self) -> None:
        """Close all connections."""
        for peer in self._connections:
            peer.abort()

    async def connect(self, number: int) -> Peer:
        """Return a new connection, which the cluster closes at its end."""
        address = "127.0.0.1", self.ports[number]
        peer = await Peer.connect(TcpNetwork(), *address, client_id="test")
        self._connections.append(peer)
        return peer

    async def peer(self, number: int) -> Peer:
        """Return the connection to a broker."""
        peer = self.peers.get(number)
        if peer is None or peer.is_closed:
            peer = self.peers[number] = await self.connect(number)
        return peer

    async def send(self, number: int, request: Any, version: int | None = None) -> Any:
        """Send a request to a broker, and return the response."""
        return await (await self.peer(number)).send(request, version)

    def disconnect(self, number: int) -> None:
        """Close the connection to a broker."""
        peer = self.peers.pop(number, None)
        if peer is not None:
            peer.abort()


AnyCluster = TypeVar("AnyCluster", bound=InProcessCluster)


def dotted(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings that were keyword arguments, with `__` for dots."""
    return {name.replace("__", "."): value for name, value in settings.items()}


def run_story(
    cluster: AnyCluster,
    story: Callable[[AnyCluster], Awaitable[None]],
    prepare: Callable[[AnyCluster], Awaitable[None]] | None = None,
) -> None:
    """Run a story on a cluster, after what prepares it, and stop the cluster."""

    async def main() -> None:
        try:
            if prepare is not None:
                await prepare(cluster)
            await story(cluster)
        finally:
            await cluster.close()

    asyncio.run(main())
