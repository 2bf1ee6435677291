"""A broker whose only listener asks for SASL."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.core.sasl.jaas import quoted
from kavka.net.clock import SystemRandom
from kavka.net.event_loop import MeasuredEventLoop
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.net.peer_security import PeerSecurity
from kavka.net.sasl_login import password_login

PLAIN_USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_alice="alice secret" user_bob={quoted("b,o=b")};'
)
SETTINGS = {
    "listeners": "CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "CLIENTS",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.clients.plain.sasl.jaas.config": PLAIN_USERS,
    "sasl.jaas.config": PLAIN_USERS.replace(";", ' username="alice" password="alice secret";'),
    "connection.failed.authentication.delay.ms": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class Server:
    """A broker whose only listener asks for SASL."""

    def __init__(self, broker: Broker, port: int) -> None:
        self.broker = broker
        self.port = port

    @property
    def counts(self) -> Counter[tuple[str, str, bool]]:
        """The authentications, by listener, mechanism, and whether they succeeded."""
        assert self.broker.security.sasl_sessions is not None
        return self.broker.security.sasl_sessions.counts

    async def connect(self, user: str, password: str, mechanism: str = "PLAIN") -> Peer:
        login = password_login(mechanism, user, password, SystemRandom())
        return await Peer.connect(
            TcpNetwork(), "127.0.0.1", self.port, security=PeerSecurity(sasl=login)
        )

    async def anonymous(self) -> Peer:
        return await Peer.connect(TcpNetwork(), "127.0.0.1", self.port)

    def config(self, user: str, password: str, mechanism: str = "PLAIN") -> dict[str, Any]:
        """Return the settings of a client."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }


@asynccontextmanager
async def served(directory: Path, **settings: str | None) -> AsyncIterator[Server]:
    texts: dict[str, Any] = {**SETTINGS, "log.dirs": str(directory / "data"), **settings}
    broker = Broker({n: t for n, t in texts.items() if t is not None}, OsEnvironment())
    endpoints = await broker.start()
    try:
        yield Server(broker, endpoints[0].port)
    finally:
        await broker.stop()


def run_beside(
    directory: Path, story: Callable[[Server], Awaitable[None]], **settings: str | None
) -> None:
    """Run a story beside a broker with SASL, on a loop of its own."""

    async def with_broker() -> None:
        async with served(directory, **settings) as server:
            await story(server)

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(with_broker())
