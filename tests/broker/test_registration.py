import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kavka.broker.lifecycle.identity import IdentityError
from kavka.broker.lifecycle.previous_sessions import FILE, PreviousSessions
from kavka.broker.lifecycle.registration import Registration
from kavka.ids import BrokerId
from kavka.net.clock import SystemClock, SystemRandom
from kavka.net.network import TcpNetwork
from kavka.registry.interface import ensure_path
from kavka.registry.local_session import LocalSession
from kavka.registry.znode_server import ZnodeServer
from kavka.simulation.faulty_session import FaultySession
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.disk.os_disk import OsDisk
from kavka.wire.stored.znodes import BROKER_IDS, CONTROLLER, CONTROLLER_EPOCH, BrokerNode
from support.waiting import until

PATH = f"{BROKER_IDS}/7"


def node_at(port: int) -> Callable[[], BrokerNode]:
    endpoint = f"PLAINTEXT://127.0.0.1:{port}"
    return lambda: BrokerNode([endpoint], {"PLAINTEXT": "PLAINTEXT"}, None, 0, "127.0.0.1", port)


def registration(
    session, port: int, patience_ms: int = 50, own: PreviousSessions | None = None
) -> Registration:
    """Return one of a process on directories of its own, or on those of `own`."""
    own = PreviousSessions([]) if own is None else own
    return Registration(
        session,
        TcpNetwork(),
        BrokerId(7),
        node_at(port),
        own,
        session_timeout_ms=patience_ms,
        same_cluster=nothing,
    )


async def nothing(*_: object) -> None:
    """Have nothing to say or do."""


async def opened() -> ZnodeServer:
    znode_server = ZnodeServer(SystemClock(), SystemRandom())
    await ensure_path(LocalSession(znode_server), BROKER_IDS)
    return znode_server


class Listening:
    """A process at a port of its own."""

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(
            lambda reader, writer: writer.close(), "127.0.0.1"
        )
        return self._server.sockets[0].getsockname()[1]

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()


async def closed_port() -> int:
    async with Listening() as port:
        return port


def test_the_epoch_is_the_transaction_that_made_the_node() -> None:
    async def run() -> None:
        znode_server = await opened()
        session = LocalSession(znode_server, 1000)
        epoch = await registration(session, 9092).register()
        stat = await session.stat(PATH)
        assert (epoch, session.session_id) == (stat.czxid, stat.ephemeral_owner)

    asyncio.run(run())


def test_an_id_whose_broker_answers_is_refused_with_its_address() -> None:
    async def run() -> None:
        znode_server = await opened()
        async with Listening() as port:
            await registration(LocalSession(znode_server, 1000), port).register()
            with pytest.raises(IdentityError, match=rf"broker.id=7 is running at .*:{port}"):
                await registration(LocalSession(znode_server, 1000), 1).register()

    asyncio.run(run())


@pytest.mark.parametrize("moves", [False, True])
def test_the_node_of_this_brokers_last_life_is_taken_over(moves: bool) -> None:
    async def run() -> None:
        znode_server = await opened()
        own = PreviousSessions([])
        port = await closed_port()
        first = await registration(LocalSession(znode_server, 60_000), port, own=own).register()
        session = LocalSession(znode_server, 60_000)
        second = await registration(session, 1 if moves else port, own=own).register()
        assert second > first
        assert (await session.stat(PATH)).ephemeral_owner == session.session_id

    asyncio.run(run())


def test_a_broker_that_is_back_at_its_own_port_takes_its_node_over() -> None:
    async def run() -> None:
        znode_server = await opened()
        own = PreviousSessions([])
        async with Listening() as port:
            first = await registration(LocalSession(znode_server, 60_000), port, own=own).register()
            assert (
                await registration(LocalSession(znode_server, 60_000), port, own=own).register()
                > first
            )

    asyncio.run(run())


@pytest.mark.parametrize("port", [9092, 1])
def test_an_address_alone_does_not_prove_that_an_older_process_is_dead(port: int) -> None:
    """Two machines may both be called localhost: the other broker may be alive, and no process answers here."""

    async def run() -> None:
        znode_server = await opened()
        session = LocalSession(znode_server, 60_000)
        epoch = await registration(session, 9092).register()
        with pytest.raises(IdentityError, match=r"broker\.id=7 is running at .*:9092"):
            await registration(LocalSession(znode_server, 60_000), port).register()
        assert (await session.stat(PATH)).czxid == epoch

    asyncio.run(run())


@pytest.mark.parametrize("port", [9092, 1])
def test_a_broker_on_other_directories_waits_for_the_end_of_the_session(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        znode_server = await opened()
        session = LocalSession(znode_server, 60_000)
        first = await registration(session, 9092).register()
        late = registration(LocalSession(znode_server, 60_000), port, patience_ms=60_000)
        registering = asyncio.ensure_future(late.register())
        await until(lambda: "waiting for an older session to end" in caplog.text)
        assert not registering.done()
        znode_server.expire(session)
        assert await asyncio.wait_for(registering, 60) > first

    asyncio.run(run())


def test_the_controller_znode_of_a_dead_process_is_removed_with_its_registration() -> None:
    async def run() -> None:
        znode_server = await opened()
        dead, other = LocalSession(znode_server, 60_000), LocalSession(znode_server, 60_000)
        port, own = await closed_port(), PreviousSessions([])
        await registration(dead, port, own=own).register()
        await dead.create(CONTROLLER_EPOCH, b"1")
        await dead.create(CONTROLLER, b"{}", ephemeral=True)
        session = LocalSession(znode_server, 60_000)
        await registration(session, port, own=own).register()
        assert await session.stat(CONTROLLER) is None
        # A controller znode that is another's stays.
        await other.create(CONTROLLER, b"{}", ephemeral=True)
        await registration(LocalSession(znode_server, 60_000), port, own=own).register()
        assert await session.stat(CONTROLLER) is not None

    asyncio.run(run())


def test_sessions_are_remembered_in_every_directory_that_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def directories() -> list[LogDirectory]:
        random, clock = SystemRandom(), SystemClock()
        return [LogDirectory(disk, clock, random, str(tmp_path / name)) for name in ("a", "b", "c")]

    async def run() -> None:
        for name in ("a", "b", "c"):
            (tmp_path / name).mkdir()
        first = PreviousSessions(directories())
        await first.load()
        for session_id in (0x100, 0xABC, 0x100):
            await first.add(session_id)
        assert (tmp_path / "b" / FILE).read_text() == "100\nabc\n"
        (tmp_path / "a" / FILE).unlink()
        (tmp_path / "b" / FILE).write_bytes(b"\x00\xff")
        later = PreviousSessions(directories())
        await later.load()
        assert [one in later for one in (0x100, 0xABC, 0x101)] == [True, True, False]
        assert "sessions not read" in caplog.text
        broken = directories()
        broken[0].fail(OSError("gone"))
        (tmp_path / "b" / FILE).unlink()
        (tmp_path / "b" / FILE).mkdir()  # cannot be replaced
        last = PreviousSessions(broken)
        for session_id in range(20):
            await last.add(session_id)
        assert (tmp_path / "c" / FILE).read_text().split() == [f"{n:x}" for n in range(12, 20)]
        assert not (tmp_path / "a" / FILE).exists()

    disk = OsDisk(2)
    asyncio.run(run())


def test_a_lost_session_is_followed_by_a_new_one_with_a_new_epoch() -> None:
    async def run() -> None:
        znode_server = await opened()
        session = LocalSession(znode_server, 1000)
        kept = registration(session, 1)
        first = await kept.register()
        renewed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def learn(epoch: int) -> None:
            renewed.set_result(epoch)

        kept.keep_registered(learn, pytest.fail)
        znode_server.expire(session)
        assert await asyncio.wait_for(renewed, 60) > first
        assert (await session.stat(PATH)).czxid == kept.epoch
        await kept.stop()

    asyncio.run(run())


def test_an_id_that_was_taken_while_the_session_was_lost_ends_the_broker() -> None:
    async def run() -> None:
        znode_server = await opened()
        session = LocalSession(znode_server, 1000)
        kept = registration(session, 1)
        await kept.register()
        failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        async with Listening() as port:

            async def refuse(epoch: int) -> None:
                pytest.fail("registered")

            kept.keep_registered(refuse, failed.set_result)
            znode_server.expire(session)
            await registration(LocalSession(znode_server, 1000), port).register()
            assert "broker.id=7" in await asyncio.wait_for(failed, 60)
            await kept.stop()

    asyncio.run(run())


def test_broker_that_is_refused_a_node_goes_on_trying() -> None:
    async def run() -> None:
        znode_server = await opened()
        session, other = LocalSession(znode_server, 1000), LocalSession(znode_server, 1000)
        broker = registration(session, 1)
        await broker.register()
        renewed = asyncio.Event()

        async def on_renewed(_epoch: int) -> None:
            renewed.set()

        broker.keep_registered(on_renewed, pytest.fail)
        await other.delete(PATH)
        await other.delete(BROKER_IDS)
        znode_server.expire(session)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await renewed.wait()
        await ensure_path(other, BROKER_IDS)
        async with asyncio.timeout(60):
            await renewed.wait()
        await broker.stop()

    asyncio.run(run())


def test_an_id_whose_broker_answers_is_refused_without_waiting() -> None:
    async def run() -> None:
        znode_server = await opened()
        async with Listening() as port:
            await registration(LocalSession(znode_server, 1000), port).register()
            late = registration(LocalSession(znode_server, 1000), 1, patience_ms=600_000)
            with pytest.raises(IdentityError, match="is running at"):
                await asyncio.wait_for(late.register(), 30)

    asyncio.run(run())


def test_a_broker_whose_number_and_address_another_took_stops() -> None:
    async def run() -> None:
        znode_server = await opened()
        kept = registration(LocalSession(znode_server, 1000), 1)
        await kept.register()
        failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def refuse(epoch: int) -> None:
            pytest.fail("registered again")

        kept.keep_registered(refuse, failed.set_result)
        other = LocalSession(znode_server, 1000)
        await other.delete(PATH)
        await registration(other, 1).register()
        assert "another process has registered as broker.id=7" in await asyncio.wait_for(failed, 60)
        await kept.stop()

    asyncio.run(run())


class Meanwhile:
    """A network without listeners, with a hook that is called while a connection is tried."""

    def __init__(self, happens: Callable[[], Awaitable[object]]) -> None:
        self._happens = happens
        self.attempts = 0

    async def connect(self, host: str, port: int, factory: object, tls: None = None) -> None:
        self.attempts += 1
        if self.attempts == 1:
            await self._happens()
        raise ConnectionRefusedError

    async def listen(self, host: str, port: int, factory: object, tls: None = None) -> None:
        raise NotImplementedError


def test_a_registration_that_came_meanwhile_is_not_the_one_that_was_found_dead() -> None:
    async def run() -> None:
        znode_server = await opened()
        dead, faster = LocalSession(znode_server, 60_000), LocalSession(znode_server, 60_000)
        own = PreviousSessions([])
        await registration(dead, 1, own=own).register()

        async def another_is_faster() -> None:
            await dead.delete(PATH)
            await registration(faster, 2, own=own).register()

        slower = LocalSession(znode_server, 60_000)
        network = Meanwhile(another_is_faster)
        late = Registration(
            slower,
            network,  # type: ignore[arg-type]
            BrokerId(7),
            node_at(3),
            own,
            session_timeout_ms=50,
            same_cluster=nothing,
        )
        await late.register()
        assert network.attempts == 2  # the other one was asked, too

    asyncio.run(run())


@pytest.mark.slow
def test_a_look_at_the_node_that_the_registry_does_not_answer_is_made_again() -> None:
    """Meanwhile another process took number and address; the watch that fired is used up."""

    async def run() -> None:
        znode_server = await opened()
        session = FaultySession(znode_server, 200)
        ours = registration(session, 9092)
        await ours.register()
        failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        ours.keep_registered(nothing, lambda reason: failed.done() or failed.set_result(reason))  # type: ignore[arg-type, func-returns-value]
        await _settled()
        unanswered: list[ConnectionError] = []
        stat = session.stat

        async def noted(*asked):
            try:
                return await stat(*asked)
            except ConnectionError as error:
                unanswered.append(error)
                raise

        session.stat = noted  # type: ignore[method-assign]
        session.delay_ms = 150  # a watch comes, a response comes too late
        other = FaultySession(znode_server)
        await other.delete(PATH)
        await registration(other, 9092).register()
        await until(lambda: unanswered)
        session.delay_ms = 0
        assert "must not share both" in await asyncio.wait_for(failed, 10)
        await ours.stop()

    asyncio.run(run())


def test_a_registration_that_was_stopped_reads_the_node_no_more() -> None:
    """The session that is closed next takes the node with it."""

    async def run() -> None:
        znode_server = await opened()
        session = LocalSession(znode_server, 1000)
        ours = registration(session, 9092)
        await ours.register()
        ours.keep_registered(nothing, pytest.fail)
        await _settled()
        await ours.stop()
        await session.close()
        await _settled()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


async def _settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
