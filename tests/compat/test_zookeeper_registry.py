"""Our registry over Apache ZooKeeper 3.8 and 3.9."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from kavka.broker.environment import OsEnvironment
from kavka.cli.zookeeper.shell_commands import sentence_about
from kavka.core.znodes import Check, Create, Delete, Event, EventType, SetData, ZnodeError
from kavka.registry.interface import RegistryRefused
from kavka.registry.zookeeper import ZooKeeperRegistry, ZooKeeperUnreachable
from kavka.wire.zookeeper.messages import Acl, ClientInfo
from kavka_compat.zookeeper import Ensemble, run_ensemble
from support.waiting import until

pytestmark = pytest.mark.compat

SESSION_MS = 2000


@pytest.fixture(scope="module", params=["3.8", pytest.param("3.9", marks=pytest.mark.long)])
def zookeeper(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ensemble]:
    directory = tmp_path_factory.mktemp("zookeeper")
    with run_ensemble(directory, release=request.param) as ensemble:
        yield ensemble


@asynccontextmanager
async def session(connect: str, timeout_ms: int = SESSION_MS) -> AsyncIterator[ZooKeeperRegistry]:
    environment = OsEnvironment()
    registry = await ZooKeeperRegistry.open(
        environment.network,
        environment.random,
        connect,
        session_timeout_ms=timeout_ms,
        connection_timeout_ms=60_000,
    )
    try:
        yield registry
    finally:
        await registry.close()


def test_what_is_written_is_read_with_zookeepers_facts(zookeeper: Ensemble) -> None:
    async def run() -> None:
        async with session(f"{zookeeper.connect}/facts") as registry:
            assert await registry.create("/node", b"one") == "/node"
            stat = await registry.set("/node", b"three", 0)
            data, same = await registry.get("/node")
            assert data == b"three"
            assert same == stat
            assert (stat.version, stat.data_length, stat.ephemeral_owner) == (1, 5, 0)
            assert await registry.children("/") == ["node"]
            await registry.delete("/node", 1)
            assert await registry.stat("/node") is None

    asyncio.run(run())


def test_access_lists_watches_and_identities_are_an_ensembles(zookeeper: Ensemble) -> None:
    """Requests that only `kavka zookeeper-shell` sends."""
    kazoo = KazooClient(zookeeper.connect)
    kazoo.start()
    acl = [make_acl("world", "anyone", read=True), make_acl("ip", "127.0.0.1", all=True)]
    kazoo.create("/asked")
    kazoo.create("/asked/closed", acl=[make_acl("digest", "me:x", all=True)])
    kazoo.create("/asked/listed", acl=acl)
    kazoo.stop()
    kazoo.close()

    async def run() -> None:
        async with session(f"{zookeeper.connect}/asked") as registry:
            entries, stat = await registry.acl("/listed")
            assert entries == [Acl(1, "world", "anyone"), Acl(31, "ip", "127.0.0.1")]
            assert stat.num_children == 0
            with pytest.raises(ConnectionError) as refused:
                await registry.get("/closed")
            assert sentence_about(refused.value) == "Insufficient permission : {}"
            await registry.sync("/listed")
            assert await registry.identities() == [ClientInfo("ip", "127.0.0.1")]
            await registry.create("/e", ephemeral=True)
            assert await registry.ephemerals("/") == ["/e"]
            events: list[Event] = []
            for path in ("/e", "/"):
                await registry.stat(path, events.append)
                await registry.children(path, events.append)
            assert registry.watches("/e") == registry.watches("/") == (True, True)
            await registry.unwatch("/e", node=True, children=True)
            await registry.unwatch("/", node=True, children=False)
            assert registry.watches("/") == (False, True)
            await registry.delete("/e")
            await until(lambda: events)
            assert events == [Event(EventType.CHILDREN_CHANGED, "/")]

    asyncio.run(run())


def test_refusals_have_their_names(zookeeper: Ensemble) -> None:
    async def run() -> None:
        async with session(f"{zookeeper.connect}/refusals") as registry:
            await registry.create("/taken")
            await registry.create("/parent")
            await registry.create("/parent/child")
            calls: dict[ZnodeError, Callable[[], Awaitable[object]]] = {
                ZnodeError.NODE_EXISTS: lambda: registry.create("/taken"),
                ZnodeError.NO_NODE: lambda: registry.get("/nonexistent"),
                ZnodeError.BAD_VERSION: lambda: registry.set("/taken", b"", 7),
                ZnodeError.NOT_EMPTY: lambda: registry.delete("/parent"),
            }
            for error, call in calls.items():
                with pytest.raises(RegistryRefused) as refused:
                    await call()
                assert refused.value.error is error

    asyncio.run(run())


def test_a_multi_happens_whole_or_says_what_refused_it(zookeeper: Ensemble) -> None:
    async def run() -> None:
        async with session(f"{zookeeper.connect}/multi") as registry:
            await registry.create("/epoch", b"1")
            made = await registry.multi(
                [Check("/epoch", 0), Create("/a"), Create("/s-", sequence=True), Delete("/a")]
            )
            assert made == ["/epoch", "/a", "/s-0000000002", "/a"]
            with pytest.raises(RegistryRefused) as refused:
                await registry.multi([Create("/b"), SetData("/epoch", b"2", 5), Create("/c")])
            assert (refused.value.error, refused.value.path) == (ZnodeError.BAD_VERSION, "/epoch")
            assert refused.value.at == 1
            assert await registry.stat("/b") is None

    asyncio.run(run())


def test_what_is_larger_than_a_packet_is_refused_and_the_session_goes_on(
    zookeeper: Ensemble,
) -> None:
    async def run() -> None:
        async with session(f"{zookeeper.connect}/large") as registry:
            with pytest.raises(RegistryRefused, match="BAD_ARGUMENTS"):
                await registry.create("/large", bytes(2**20))
            await registry.create("/small", bytes(2**19))

    asyncio.run(run())


def test_watches_are_notified_once_and_inside_the_chroot(zookeeper: Ensemble) -> None:
    async def run() -> None:
        received: list[Event] = []
        async with (
            session(f"{zookeeper.connect}/watched") as watching,
            session(f"{zookeeper.connect}/watched") as changing,
        ):
            assert await watching.stat("/later", received.append) is None
            await watching.children("/", received.append)
            await changing.create("/later", b"1")
            await until(lambda: len(received) == 2)
            assert set(received) == {
                Event(EventType.CREATED, "/later"),
                Event(EventType.CHILDREN_CHANGED, "/"),
            }
            await changing.set("/later", b"2")
            await watching.get("/later", received.append)
            await changing.delete("/later")
            await until(lambda: len(received) == 3)
            assert received[2] == Event(EventType.DELETED, "/later")

    asyncio.run(run())


def test_ephemeral_nodes_go_with_their_session(zookeeper: Ensemble) -> None:
    async def run() -> None:
        async with session(f"{zookeeper.connect}/ephemeral") as other:
            async with session(f"{zookeeper.connect}/ephemeral") as owner:
                await owner.create("/here", ephemeral=True)
                stat = await other.stat("/here")
                assert stat is not None
                assert stat.ephemeral_owner == owner.session_id
            assert await other.stat("/here") is None

    asyncio.run(run())


def test_a_stuck_loop_loses_its_session_and_another_begins(zookeeper: Ensemble) -> None:
    async def run() -> None:
        async with session(f"{zookeeper.connect}/stuck", 1000) as registry:
            await registry.create("/mine", ephemeral=True)
            first = registry.session_id
            lost = asyncio.Event()
            registry.session_lost = lost.set
            time.sleep(3)  # noqa: ASYNC251 - time: the loop itself pings, and falls silent when stuck
            await asyncio.wait_for(lost.wait(), 30)
            with pytest.raises(ConnectionError, match="is over"):
                await registry.set("/mine", b"late")
            await registry.reconnect()
            assert registry.session_id not in (0, first)
            assert await registry.stat("/mine") is None

    asyncio.run(run())


def test_an_address_without_a_server_is_reported_with_the_settings_to_look_at() -> None:
    async def run() -> None:
        environment = OsEnvironment()
        with pytest.raises(ZooKeeperUnreachable, match=r"127\.0\.0\.1:1/x within 300 ms"):
            await ZooKeeperRegistry.open(
                environment.network,
                environment.random,
                "127.0.0.1:1/x",
                session_timeout_ms=SESSION_MS,
                connection_timeout_ms=300,
            )

    asyncio.run(run())


@pytest.mark.parametrize("release", ["3.8", pytest.param("3.9", marks=pytest.mark.long)])
def test_a_session_outlives_members_that_are_killed_or_silent(tmp_path: Path, release: str) -> None:
    async def run(ensemble: Ensemble) -> None:
        received: list[Event] = []
        async with (
            session(f"{ensemble.connect}/cluster", 10_000) as registry,
            session(f"{ensemble.connect}/cluster", 10_000) as other,
        ):
            first = registry.session_id
            await registry.create("/mine", ephemeral=True)
            await registry.create("/counted", b"0")
            await registry.get("/counted", received.append)
            for round_number in range(3):
                ensemble.kill(round_number)
                await registry.set("/counted", str(round_number).encode(), round_number)
                ensemble.start(round_number)
                await other.stat("/counted")
                # Else the next kill may leave one of three, for as long as a busy machine takes to start it.
                await asyncio.to_thread(ensemble.wait_until_in_quorum, round_number)
            frozen = ensemble.process(0)
            frozen.signal(signal.SIGSTOP)
            try:
                await registry.set("/counted", b"3", 3)
                await other.get("/counted")
            finally:
                frozen.signal(signal.SIGCONT)
            data, stat = await registry.get("/counted")
            assert (data, stat.version) == (b"3", 4)
            assert registry.session_id == first
            mine = await other.stat("/mine")
            assert mine is not None
            assert mine.ephemeral_owner == first
        assert received[0] == Event(EventType.DATA_CHANGED, "/counted")

    with run_ensemble(tmp_path, release=release, members=3) as ensemble:
        asyncio.run(run(ensemble))
