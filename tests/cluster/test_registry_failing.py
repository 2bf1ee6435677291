"""A controller whose registry fails in one call, and whose session lives on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.broker.host import RealHost
from kavka.registry.interface import Watch
from kavka.registry.session import Session
from kavka.wire.stored import znodes

Run = Callable[..., None]
Cluster = Any


class Failing(Session):
    """A session in which some lists cannot be read just now, as when no member of an ensemble answers for a while."""

    unreadable: str | None = None

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        if path == self.unreadable:
            self.unreadable = None
            raise ConnectionError("no member answers")
        return await super().children(path, watch)


@pytest.mark.parametrize("path", [znodes.LOG_DIR_EVENTS, znodes.ISR_CHANGES])
def test_notifications_are_read_after_the_registry_failed(run: Run, path: str) -> None:
    async def story(cluster: Cluster) -> None:
        session = Failing(cluster.keeper, 60_000)
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(cluster.path / "1")}
        broker = Broker({"broker.id": "1", **settings}, RealHost(), session)
        await broker.start()
        cluster.brokers[1] = broker
        other = cluster.keeper.open_session(60_000)
        session.unreadable = path
        for _ in range(2):
            await other.create(f"{path}/event_", b"{}", sequence=True)
            await cluster.until(lambda: not cluster.keeper.tree.children(path), "all were read")
        assert session.unreadable is None

    run(story, brokers=0)
