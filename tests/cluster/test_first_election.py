"""A broker whose first election is overtaken starts all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.broker.host import RealHost
from kavka.core.znodes import SetData
from kavka.ids import TopicId, TopicPartition
from kavka.registry.interface import ensure_paths
from kavka.registry.keeper import Keeper
from kavka.registry.session import Session
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import TopicNode

WHERE = TopicPartition("t", 0)


async def depose(keeper: Keeper, _session: Session) -> None:
    """Rule for a moment, as another broker."""
    other = keeper.open_session()
    epoch, _stat = await other.get(znodes.CONTROLLER_EPOCH)
    await other.multi([SetData(znodes.CONTROLLER_EPOCH, str(int(epoch) + 1).encode())])
    await other.delete(znodes.CONTROLLER)


async def expire(keeper: Keeper, session: Session) -> None:
    """End the session of who was elected."""
    keeper.expire(session)


class Overtaken(Session):
    """A session to whose holder something happens, while it reads what it is to rule over."""

    happens: Any = None

    async def children(self, path: str, watch: Any = None) -> list[str]:
        happens = self.happens
        if happens is not None and path == znodes.DELETED_TOPICS:
            self.happens = None
            await happens(self._keeper, self)
        return await super().children(path, watch)


@pytest.mark.parametrize("happens", [depose, expire])
def test_broker_that_is_deposed_before_it_rules_starts_all_the_same(
    happens: Callable[..., Any], tmp_path: Path
) -> None:
    async def run() -> None:
        host = RealHost()
        keeper = Keeper(host.clock, host.chance)
        session = Overtaken(keeper, 6_000)
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
        broker = Broker(settings, host, session)
        async with asyncio.timeout(60):
            await broker.start()
            assert session.happens is None
            while broker.metadata.partition(WHERE) is None:
                await broker.metadata.next_change()
        assert broker.controller.is_active
        await broker.stop()
        await keeper.close()

    asyncio.run(run())
