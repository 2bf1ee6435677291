import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kavka.broker.identity import IdentityError
from kavka.broker.registration import Registration
from kavka.ids import BrokerId
from kavka.net.clock import SystemChance, SystemClock
from kavka.net.network import TcpNetwork
from kavka.registry.interface import ensure_path
from kavka.registry.keeper import Keeper
from kavka.wire.stored.znodes import BROKER_IDS, CONTROLLER, CONTROLLER_EPOCH, BrokerNode

PATH = f"{BROKER_IDS}/7"


def node_at(port: int) -> Callable[[], BrokerNode]:
    endpoint = f"PLAINTEXT://127.0.0.1:{port}"
    return lambda: BrokerNode([endpoint], {"PLAINTEXT": "PLAINTEXT"}, None, 0, "127.0.0.1", port)


def registration(session, port: int, patience_ms: int = 50) -> Registration:
    return Registration(session, TcpNetwork(), BrokerId(7), node_at(port), patience_ms=patience_ms)


async def opened() -> Keeper:
    keeper = Keeper(SystemClock(), SystemChance())
    await ensure_path(keeper.open_session(), BROKER_IDS)
    return keeper


class Listening:
    """Somebody at a port of their own."""

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


def test_the_epoch_is_the_transaction_that_made_the_node():
    async def run():
        keeper = await opened()
        session = keeper.open_session(1000)
        epoch = await registration(session, 9092).register()
        stat = await session.stat(PATH)
        assert (epoch, session.session_id) == (stat.czxid, stat.ephemeral_owner)

    asyncio.run(run())


def test_an_id_whose_broker_answers_is_refused_with_its_address():
    async def run():
        keeper = await opened()
        async with Listening() as port:
            await registration(keeper.open_session(1000), port).register()
            with pytest.raises(IdentityError, match=rf"broker.id=7 is running at .*:{port}"):
                await registration(keeper.open_session(1000), 1).register()

    asyncio.run(run())


def test_the_node_of_a_process_that_is_gone_is_taken_over():
    async def run():
        keeper = await opened()
        first = await registration(keeper.open_session(1000), await closed_port()).register()
        session = keeper.open_session(1000)
        second = await registration(session, 1).register()
        assert second > first
        assert (await session.stat(PATH)).ephemeral_owner == session.session_id

    asyncio.run(run())


def test_a_broker_that_is_back_at_its_own_port_takes_its_node_over():
    async def run():
        keeper = await opened()
        async with Listening() as port:
            first = await registration(keeper.open_session(1000), port).register()
            assert await registration(keeper.open_session(1000), port).register() > first

    asyncio.run(run())


def test_the_office_of_a_process_that_is_gone_goes_with_its_node():
    async def run():
        keeper = await opened()
        dead, other = keeper.open_session(60_000), keeper.open_session(60_000)
        port = await closed_port()
        await registration(dead, port).register()
        await dead.create(CONTROLLER_EPOCH, b"1")
        await dead.create(CONTROLLER, b"{}", ephemeral=True)
        session = keeper.open_session(60_000)
        await registration(session, port).register()
        assert await session.stat(CONTROLLER) is None
        # An office that is another's stays.
        await other.create(CONTROLLER, b"{}", ephemeral=True)
        await registration(keeper.open_session(60_000), port).register()
        assert await session.stat(CONTROLLER) is not None

    asyncio.run(run())


def test_a_lost_session_is_followed_by_a_new_one_with_a_new_epoch():
    async def run():
        keeper = await opened()
        session = keeper.open_session(1000)
        kept = registration(session, 1)
        first = await kept.register()
        renewed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def learn(epoch: int) -> None:
            renewed.set_result(epoch)

        kept.keep(learn, pytest.fail)
        keeper.expire(session)
        assert await asyncio.wait_for(renewed, 60) > first
        assert (await session.stat(PATH)).czxid == kept.epoch
        await kept.stop()

    asyncio.run(run())


def test_an_id_that_was_taken_while_the_session_was_lost_ends_the_broker():
    async def run():
        keeper = await opened()
        session = keeper.open_session(1000)
        kept = registration(session, 1)
        await kept.register()
        failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        async with Listening() as port:

            async def refuse(epoch: int) -> None:
                pytest.fail("registered")

            kept.keep(refuse, failed.set_result)
            keeper.expire(session)
            await registration(keeper.open_session(1000), port).register()
            assert "broker.id=7" in await asyncio.wait_for(failed, 60)
            await kept.stop()

    asyncio.run(run())


def test_broker_that_is_refused_a_node_goes_on_trying():
    async def run():
        keeper = await opened()
        session, other = keeper.open_session(1000), keeper.open_session(1000)
        broker = registration(session, 1)
        await broker.register()
        renewed = asyncio.Event()

        async def told(_epoch: int) -> None:
            renewed.set()

        broker.keep(told, pytest.fail)
        await other.delete(PATH)
        await other.delete(BROKER_IDS)
        keeper.expire(session)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await renewed.wait()
        await ensure_path(other, BROKER_IDS)
        async with asyncio.timeout(60):
            await renewed.wait()
        await broker.stop()

    asyncio.run(run())


def test_an_id_whose_broker_answers_is_refused_without_waiting():
    async def run():
        keeper = await opened()
        async with Listening() as port:
            await registration(keeper.open_session(1000), port).register()
            late = registration(keeper.open_session(1000), 1, patience_ms=600_000)
            with pytest.raises(IdentityError, match="is running at"):
                await asyncio.wait_for(late.register(), 30)

    asyncio.run(run())


def test_a_broker_whose_number_and_address_another_took_stops():
    async def run():
        keeper = await opened()
        kept = registration(keeper.open_session(1000), 1)
        await kept.register()
        failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def refuse(epoch: int) -> None:
            pytest.fail("registered anew")

        kept.keep(refuse, failed.set_result)
        await registration(keeper.open_session(1000), 1).register()
        assert "another process has registered as broker.id=7" in await asyncio.wait_for(failed, 60)
        await kept.stop()

    asyncio.run(run())


class Meanwhile:
    """A network on which nobody listens, and where something happens while that is found out."""

    def __init__(self, happens: Callable[[], Awaitable[object]]) -> None:
        self._happens = happens
        self.attempts = 0

    async def connect(self, host: str, port: int, factory: object) -> None:
        self.attempts += 1
        if self.attempts == 1:
            await self._happens()
        raise ConnectionRefusedError

    async def listen(self, host: str, port: int, factory: object) -> None:
        raise NotImplementedError


def test_a_registration_that_came_meanwhile_is_not_the_one_that_was_found_dead():
    async def run():
        keeper = await opened()
        dead, faster = keeper.open_session(60_000), keeper.open_session(60_000)
        await registration(dead, 1).register()

        async def another_is_faster() -> None:
            await dead.delete(PATH)
            await registration(faster, 2).register()

        slower = keeper.open_session(60_000)
        network = Meanwhile(another_is_faster)
        late = Registration(slower, network, BrokerId(7), node_at(3), patience_ms=50)
        await late.register()
        assert network.attempts == 2  # the other one was asked, too

    asyncio.run(run())
