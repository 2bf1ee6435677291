"""One znode server, several sessions: watches, order, timeouts, cuts."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kavka.core.znodes import Create, Event, EventType, ZnodeError
from kavka.io import Buffer
from kavka.net.clock import SystemClock, SystemRandom
from kavka.registry.interface import Registry, RegistryRefused
from kavka.registry.local_session import LocalSession
from kavka.registry.znode_server import ZnodeServer
from kavka.simulation.faulty_session import FaultySession
from kavka.storage.disk.os_disk import OsDisk, OsFile

TIMEOUT_MS = 40


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def in_memory() -> ZnodeServer:
    return ZnodeServer(SystemClock(), SystemRandom())


async def durable(path: Path) -> ZnodeServer:
    return await ZnodeServer.open(OsDisk(), str(path), SystemClock(), SystemRandom())


async def lost(session: Registry) -> None:
    """Wait until a session is notified of its end."""
    failures = asyncio.Event()
    session.session_lost = failures.set
    await failures.wait()


def test_sessions_share_one_tree_and_own_their_ephemerals() -> None:
    async def story() -> None:
        znode_server = in_memory()
        one, other = LocalSession(znode_server), LocalSession(znode_server)
        await one.create("/mine", b"x", ephemeral=True)
        data, stat = await other.get("/mine")
        assert (data, stat.ephemeral_owner) == (b"x", one.session_id)
        assert one.session_id != other.session_id
        await one.close()
        assert await other.stat("/mine") is None
        with pytest.raises(ConnectionError, match="is over"):
            await one.get("/")

    run(story())


def test_set_answers_with_the_facts_of_its_own_change() -> None:
    async def story() -> None:
        znode_server = in_memory()
        one, other = LocalSession(znode_server), LocalSession(znode_server)
        await one.create("/a")
        stats = await asyncio.gather(*(s.set("/a", b"x") for s in (one, other, one)))
        assert [stat.version for stat in stats] == [1, 2, 3]

    run(story())


def test_a_watch_is_notified_before_the_new_data_can_be_read() -> None:
    async def story() -> None:
        znode_server = in_memory()
        writer, reader = LocalSession(znode_server), LocalSession(znode_server)
        await writer.create("/a", b"old")
        seen: list[str] = []
        await reader.get("/a", lambda event: seen.append(event.type.name))
        await writer.set("/a", b"new")
        data, _stat = await reader.get("/a")
        assert (data, seen) == (b"new", ["DATA_CHANGED"])

    run(story())


def test_no_session_reads_a_change_that_is_not_synced_yet(tmp_path: Path) -> None:
    async def story() -> None:
        znode_server = await durable(tmp_path)
        writer, reader = LocalSession(znode_server), LocalSession(znode_server)
        order: list[str] = []

        async def write() -> None:
            await writer.create("/a")
            order.append("written")

        async def read() -> None:
            assert await reader.stat("/a") is not None
            order.append("read")

        await asyncio.gather(write(), read())
        assert order == ["written", "read"]
        await znode_server.close()

    run(story())


def test_a_refusal_that_rests_on_an_unsynced_change_waits_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        znode_server = await durable(tmp_path)
        one, other = LocalSession(znode_server), LocalSession(znode_server)
        order: list[str] = []

        async def create(session: Registry) -> None:
            try:
                await session.create("/a")
                order.append("made")
            except RegistryRefused as refused:
                order.append(refused.error.name)

        await asyncio.gather(create(one), create(other))
        assert order == ["made", "NODE_EXISTS"]
        await znode_server.close()

    run(story())


def test_a_session_that_is_silent_expires_and_others_see_it() -> None:
    async def story() -> None:
        znode_server = in_memory()
        silent, other = (
            FaultySession(znode_server, TIMEOUT_MS),
            FaultySession(znode_server, TIMEOUT_MS),
        )
        await silent.create("/here", ephemeral=True)
        gone = asyncio.get_running_loop().create_future()
        await other.stat("/here", gone.set_result)
        silent.cut()
        assert await gone == Event(EventType.DELETED, "/here")
        losing = asyncio.ensure_future(lost(silent))
        await asyncio.sleep(0)
        silent.heal()
        await losing
        with pytest.raises(ConnectionError):
            await silent.create("/again", ephemeral=True)

    run(story())


def test_a_session_whose_client_crashed_expires_after_its_timeout() -> None:
    async def story() -> None:
        znode_server = in_memory()
        crashed, other = FaultySession(znode_server, TIMEOUT_MS), LocalSession(znode_server)
        await crashed.create("/here", ephemeral=True)
        gone = asyncio.get_running_loop().create_future()
        await other.stat("/here", gone.set_result)
        crashed.crash()
        with pytest.raises(ConnectionError, match="is over"):
            await crashed.get("/")
        await crashed.close()
        assert znode_server.tree.stat("/here") is not None
        assert await gone == Event(EventType.DELETED, "/here")

    run(story())


def test_calls_of_a_cut_session_wait_and_go_on_when_it_is_healed() -> None:
    async def story() -> None:
        znode_server = in_memory()
        session, other = FaultySession(znode_server, 10_000), FaultySession(znode_server)
        await other.create("/a")
        seen: list[Event] = []
        await session.stat("/a", seen.append)
        session.cut()
        writing = asyncio.ensure_future(session.create("/b"))
        await other.set("/a", b"x")
        assert await other.stat("/b") is None
        assert not seen
        session.heal()
        assert await writing == "/b"
        assert seen == [Event(EventType.DATA_CHANGED, "/a")]

    run(story())


def test_a_call_of_a_cut_session_fails_after_the_time_out() -> None:
    async def story() -> None:
        znode_server = in_memory()
        session = FaultySession(znode_server, TIMEOUT_MS)
        session.cut()
        with pytest.raises(ConnectionError, match="no answer"):
            await session.create("/a")
        assert znode_server.tree.stat("/a") is None
        session.heal()
        assert znode_server.tree.stat("/a") is None

    run(story())


def test_expiry_notifies_the_session_and_fails_its_waiting_calls() -> None:
    async def story() -> None:
        znode_server = in_memory()
        session = FaultySession(znode_server, 10_000)
        await session.create("/here", ephemeral=True)
        session.delay_ms = 5_000
        waiting = asyncio.ensure_future(session.get("/"))
        await asyncio.sleep(0)
        session.delay_ms = 0
        losing = asyncio.ensure_future(lost(session))
        await asyncio.sleep(0)
        znode_server.expire(session)
        await losing
        assert znode_server.tree.stat("/here") is None
        with pytest.raises(ConnectionError, match="is over"):
            await waiting

    run(story())


def test_reconnecting_begins_another_session() -> None:
    async def story() -> None:
        znode_server = in_memory()
        session = LocalSession(znode_server, 10_000)
        first = session.session_id
        losing = asyncio.ensure_future(lost(session))
        await asyncio.sleep(0)
        znode_server.expire(session)
        await losing
        await session.reconnect()
        assert session.session_id != first
        await session.create("/here", ephemeral=True)
        stat = znode_server.tree.stat("/here")
        assert stat is not None
        assert stat.ephemeral_owner == session.session_id

    run(story())


def test_what_was_sent_in_a_session_does_not_arrive_in_the_next() -> None:
    async def story() -> None:
        znode_server = in_memory()
        session = FaultySession(znode_server, 10_000)
        losing = asyncio.ensure_future(lost(session))
        await asyncio.sleep(0)
        session.delay_ms = 5
        late = asyncio.ensure_future(session.create("/late"))
        await asyncio.sleep(0)
        session.delay_ms = 0
        znode_server.expire(session)
        await losing
        await session.reconnect()
        with pytest.raises(ConnectionError, match="is over"):
            await late
        session.delay_ms = 10  # behind what is on its way
        await session.stat("/")
        assert znode_server.tree.stat("/late") is None

    run(story())


def test_watches_of_a_session_that_is_over_are_forgotten() -> None:
    async def story() -> None:
        znode_server = in_memory()
        session, other = LocalSession(znode_server), LocalSession(znode_server)
        await session.children("/", lambda _event: None)
        await session.stat("/a", lambda _event: None)
        assert len(znode_server.watches) == 2
        await session.close()
        assert len(znode_server.watches) == 0
        await other.create("/a")

    run(story())


def test_a_slowed_session_gets_its_responses_in_order() -> None:
    async def story() -> None:
        znode_server = in_memory()
        session = FaultySession(znode_server, 10_000)
        session.delay_ms = 2
        order: list[str] = []
        await session.children("/", lambda event: order.append(event.type.name))

        async def create(name: str) -> None:
            order.append(await session.create(name))

        await asyncio.gather(create("/a"), create("/b"))
        assert order == ["CHILDREN_CHANGED", "/a", "/b"]

    run(story())


def test_durable_sessions_outlive_the_server_and_others_do_not(tmp_path: Path) -> None:
    async def story() -> None:
        znode_server = await durable(tmp_path)
        session = znode_server.create_session(10_000, is_durable=True)
        znode_server.submit([Create("/kept", ephemeral=True)], session.session_id)
        passing = LocalSession(znode_server, 10_000)
        await passing.create("/passing", ephemeral=True)
        again = await durable(tmp_path)  # the first was never closed
        assert again.tree.children("/") == ["kept"]
        found = again.session(session.session_id)
        assert found is not None
        assert (found.password, found.timeout_ms) == (session.password, 10_000)
        again.expire(found)
        await again.close()
        third = await durable(tmp_path)
        assert third.tree.children("/") == []
        assert third.sessions() == []
        await third.close()
        await znode_server.close()

    run(story())


def test_a_client_that_does_not_come_back_after_a_restart_expires(tmp_path: Path) -> None:
    async def story() -> None:
        znode_server = await durable(tmp_path)
        session = znode_server.create_session(TIMEOUT_MS, is_durable=True)
        znode_server.submit([Create("/here", ephemeral=True)], session.session_id)
        await znode_server.close()
        again = await durable(tmp_path)
        gone = asyncio.get_running_loop().create_future()
        assert await LocalSession(again).stat("/here", gone.set_result) is not None
        assert await gone == Event(EventType.DELETED, "/here")
        await again.close()
        third = await durable(tmp_path)
        assert (third.sessions(), third.tree.children("/")) == ([], [])
        await third.close()

    run(story())


def test_sessions_survive_in_the_snapshot(tmp_path: Path) -> None:
    async def story() -> None:
        znode_server = await durable(tmp_path)
        session = znode_server.create_session(10_000, is_durable=True)
        znode_server.submit([Create("/kept", ephemeral=True)], session.session_id)
        await znode_server.close()
        again = await durable(tmp_path)
        assert again.tree.children("/") == ["kept"]
        assert [found.password for found in again.sessions()] == [session.password]
        await again.close()

    run(story())


WHERE = contextvars.ContextVar("WHERE", default="server")


class TellingDisk(OsDisk):
    """Remembers in whose context its slow calls were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.ran_in: list[str] = []

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        self.ran_in.append(WHERE.get())
        return await super().run(work, *args)


def test_changes_are_synced_in_the_servers_context_and_delivered_in_the_sessions(
    tmp_path: Path,
) -> None:
    """So the simulation can kill or pause one process without harm to the others."""

    async def story() -> None:
        disk = TellingDisk()
        znode_server = await ZnodeServer.open(disk, str(tmp_path), SystemClock(), SystemRandom())
        disk.ran_in.clear()
        WHERE.set("reader")
        reader = LocalSession(znode_server)
        seen: list[str] = []
        await reader.children("/", lambda _event: seen.append(WHERE.get()))
        WHERE.set("writer")
        await LocalSession(znode_server).create("/a")
        assert disk.ran_in == ["server"]
        await reader.stat("/a")
        assert seen == ["reader"]
        await znode_server.close()

    run(story())


class StoppedClock(SystemClock):
    """A clock of a process that stood still for `lost_ms`."""

    __slots__ = ("lost_ms",)

    def __init__(self) -> None:
        self.lost_ms = 0

    def tick_ms(self) -> int:
        return super().tick_ms() + self.lost_ms


def test_a_pause_of_the_server_expires_no_session() -> None:
    async def story() -> None:
        clock = StoppedClock()
        znode_server = ZnodeServer(clock, SystemRandom())
        session = znode_server.create_session(TIMEOUT_MS)
        znode_server.notify(session)
        before_ms = session.deadline_ms
        assert before_ms is not None
        clock.lost_ms = 60_000
        znode_server._expire_due()
        assert not session.is_closed
        assert session.deadline_ms is not None
        assert session.deadline_ms >= before_ms + 60_000
        await znode_server.close()

    run(story())


def test_a_refusal_names_the_operation_of_the_multi() -> None:
    async def story() -> None:
        session = LocalSession(in_memory())
        with pytest.raises(RegistryRefused) as refused:
            await session.multi([Create("/a"), Create("/a")])
        assert (refused.value.error, refused.value.at) == (ZnodeError.NODE_EXISTS, 1)

    run(story())


class FullFile(OsFile):
    """A file on a disk that may be full."""

    def __init__(self, descriptor: int, disk: FullDisk) -> None:
        super().__init__(descriptor)
        self._disk = disk

    def write_at(self, data: Buffer, position: int) -> None:
        if self._disk.is_full.is_set():
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write_at(data, position)


class FullDisk(OsDisk):
    """A disk that is full before what it was to sync is synced."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = asyncio.Event()
        self.is_slow = False

    def open(self, path: str, *, create: bool = False, private: bool = False) -> OsFile:
        return FullFile(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), self)

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        if self.is_slow:
            await self.is_full.wait()
            raise OSError(errno.ENOSPC, "No space left on device")
        return await super().run(work, *args)


def test_a_journal_that_fails_twice_is_reported_once(tmp_path: Path) -> None:
    """An append fails, and then the sync that was in progress."""

    async def story() -> None:
        disk = FullDisk()
        znode_server = await ZnodeServer.open(disk, str(tmp_path), SystemClock(), SystemRandom())
        failures: list[OSError] = []
        znode_server.on_failure = failures.append
        session = LocalSession(znode_server)
        disk.is_slow = True
        syncing = asyncio.ensure_future(session.create("/synced"))
        await asyncio.sleep(0)
        disk.is_full.set()
        for failing in (session.create("/late"), syncing):
            with pytest.raises(ConnectionError):
                await failing
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(failures) == 1
        await znode_server.close()

    run(story())
