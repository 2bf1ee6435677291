"""A broker whose first election is overtaken starts all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.core.znodes import SetData
from kavka.ids import TopicId, TopicPartition
from kavka.registry.interface import ensure_paths
from kavka.registry.local_session import LocalSession
from kavka.registry.znode_server import ZnodeServer
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import TopicNode

WHERE = TopicPartition("t", 0)


async def depose(znode_server: ZnodeServer, _session: LocalSession) -> None:
    """Rule for a moment, as another broker."""
    other = LocalSession(znode_server)
    epoch, _stat = await other.get(znodes.CONTROLLER_EPOCH)
    await other.multi([SetData(znodes.CONTROLLER_EPOCH, str(int(epoch) + 1).encode())])
    await other.delete(znodes.CONTROLLER)


async def expire(znode_server: ZnodeServer, session: LocalSession) -> None:
    """End the session of the elected broker."""
    znode_server.expire(session)


class Overtaken(LocalSession):
    """A session to whose holder something happens, while it reads what it is to rule over."""

    happens: Any = None

    async def children(self, path: str, watch: Any = None) -> list[str]:
        happens = self.happens
        if happens is not None and path == znodes.DELETED_TOPICS:
            self.happens = None
            await happens(self._znode_server, self)
        return await super().children(path, watch)


@pytest.mark.parametrize("happens", [depose, expire])
def test_broker_that_is_deposed_before_it_rules_starts_all_the_same(
    happens: Callable[..., Any], tmp_path: Path
) -> None:
    async def run() -> None:
        environment = OsEnvironment()
        znode_server = ZnodeServer(environment.clock, environment.random)
        session = Overtaken(znode_server, 6_000)
        await ensure_paths(session, znodes.PERSISTENT_ROOTS)
        await session.create(znodes.CONTROLLER_EPOCH, b"7")
        node = TopicNode(TopicId(bytes(15) + b"1"), {0: [1]})  # its leader is to be written
        await session.create(znodes.topic_path("t"), node.encode())
        session.happens = happens
        settings = {
            "broker.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path),
        }
        broker = Broker(settings, environment, session)
        async with asyncio.timeout(60):
            await broker.start()
            assert session.happens is None
            while broker.metadata.partition(WHERE) is None:
                await broker.metadata.next_change()
        assert broker.controller.is_active
        await broker.stop()
        await znode_server.close()

    asyncio.run(run())
