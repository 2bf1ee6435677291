"""The watches of the controller, and their renewal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kavka.broker.control.watched_registry import Changed, Source, WatchedRegistry
from kavka.broker.control.znode_changes import read_change
from kavka.broker.environment import OsEnvironment
from kavka.core.controller.events import TopicsChanged
from kavka.core.controller.state import ClusterState
from kavka.core.znodes import Stat
from kavka.ids import TopicId
from kavka.registry.interface import Watch, ensure_paths
from kavka.registry.local_session import LocalSession
from kavka.registry.znode_server import ZnodeServer
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import StateNode, TopicNode

NODE = TopicNode(TopicId(bytes(16)), {0: [1]}, {}, {})


class Cut:
    """A session whose next reads fail, as on a connection that has just broken."""

    def __init__(self, session: LocalSession) -> None:
        self._session = session
        self.is_cut = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        if self.is_cut:
            raise ConnectionError("cut")
        return await self._session.children(path, watch)

    async def stat(self, path: str, watch: Watch | None = None) -> Stat | None:
        if self.is_cut:
            raise ConnectionError("cut")
        return await self._session.stat(path, watch)


class Watched:
    """A registry, a watched view of it, and its reports."""

    def __init__(self) -> None:
        environment = OsEnvironment()
        self.znode_server = ZnodeServer(environment.clock, environment.random)
        self.session = LocalSession(self.znode_server)
        self.registry = Cut(self.session)
        self.changes: list[Changed] = []
        self.watching = WatchedRegistry(self.registry, self.changes.append)  # type: ignore[arg-type]

    async def settle(self) -> None:
        """Let events come: they come before the reply of a later call."""
        await self.session.stat("/")


Story = Callable[[Watched], Awaitable[None]]


def run(story: Story) -> None:
    async def prepared() -> None:
        watched = Watched()
        await ensure_paths(watched.session, znodes.PERSISTENT_ROOTS)
        await story(watched)

    asyncio.run(prepared())


def test_a_change_is_reported_once_until_it_is_read() -> None:
    async def story(watched: Watched) -> None:
        assert await watched.watching.topic_names() == []
        await watched.session.create(znodes.topic_path("a"), NODE.encode())
        await watched.session.create(znodes.topic_path("b"), NODE.encode())
        await watched.settle()
        assert watched.changes == [Changed(Source.TOPICS)]

    run(story)


def test_a_topic_that_was_not_there_when_it_was_read_is_watched_once_it_is() -> None:
    async def story(watched: Watched) -> None:
        assert await watched.watching.topics(["t"]) == {}
        assert "t" not in watched.watching.watched_topics
        await watched.session.create(znodes.topic_path("t"), NODE.encode())
        assert set(await watched.watching.topics(["t"])) == {"t"}
        await watched.session.set(znodes.topic_path("t"), NODE.encode())
        await watched.settle()
        assert watched.changes == [Changed(Source.TOPIC, "t")]

    run(story)


def test_a_state_that_cannot_be_decoded_is_watched_until_it_is_repaired() -> None:
    async def story(watched: Watched) -> None:
        state = StateNode(1, 3, 1, [1])
        path = znodes.state_path("t", 0)
        await watched.session.create(znodes.topic_path("t"), NODE.encode())
        await ensure_paths(watched.session, [znodes.partition_path("t", 0)])
        await watched.session.create(path, b"?")
        assert await watched.watching.topics(["t"]) == {}
        assert watched.watching.unreadable == {"t"}
        for data in (b"{}", state.encode()):
            assert watched.changes == []
            await watched.session.set(path, data)
            await watched.settle()
            (changes,) = watched.changes
            watched.changes.clear()
            change = await read_change(watched.watching, ClusterState(), changes)
        assert isinstance(change, TopicsChanged)
        assert change.topics["t"].states == {0: (state, 2)}
        assert watched.watching.unreadable == set()

    run(story)


def test_a_read_that_was_cut_off_is_watched_when_it_is_done_again() -> None:
    async def story(watched: Watched) -> None:
        watched.registry.is_cut = True
        for read in (watched.watching.brokers, watched.watching.reassignments):
            try:
                await read()
            except ConnectionError:
                continue
            raise AssertionError("the read was not cut off")
        watched.registry.is_cut = False
        assert await watched.watching.brokers() == []
        assert await watched.watching.reassignments() is None
        await watched.session.create(f"{znodes.BROKER_IDS}/1", b"{}")
        await watched.session.create(znodes.REASSIGN_PARTITIONS, b"{}")
        await watched.settle()
        assert watched.changes == [Changed(Source.BROKERS), Changed(Source.REASSIGNMENTS)]

    run(story)
