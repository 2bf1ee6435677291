"""Our ZooKeeper client beside the registry that we serve; tests/compat has it beside Apache ZooKeeper."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Self

import pytest

from kavka.core.znodes import Check, Create, Delete, Event, EventType, SetData, ZnodeError
from kavka.io import Random
from kavka.net.clock import SystemClock, SystemRandom
from kavka.net.network import TcpNetwork
from kavka.registry.client_writes import multi_reply
from kavka.registry.interface import RegistryRefused
from kavka.registry.local_session import LocalSession
from kavka.registry.registry_server import RegistryServer
from kavka.registry.registry_server_config import RegistryServerConfig
from kavka.registry.watches import WatchKind
from kavka.registry.znode_server import ZnodeServer
from kavka.registry.zookeeper import ZooKeeperRegistry, ZooKeeperUnreachable
from kavka.registry.zookeeper_connection import ServerRefused, parse_connect
from kavka.registry.zookeeper_multi import read_multi
from kavka.wire.zookeeper.jute import Reader
from kavka.wire.zookeeper.messages import ErrorResponse, OpCode


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


class Relay:
    """A way to the server that can be broken."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._writers: list[asyncio.StreamWriter] = []
        self.drops_replies = False
        """True if the next reply is swallowed and its connection broken: the request was carried out."""
        self.refuses = False
        self.accepted = 0
        self.garbles_greeting = False
        """True if bytes without sense follow the next reply at once."""
        self.breaks_after: int | None = None
        """Number of replies and events after which every connection breaks, once; None for never."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._server.close()
        self.cut()

    @property
    def is_used(self) -> bool:
        """Return whether there is a connection."""
        return any(not writer.is_closing() for writer in self._writers)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.refuses:
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers += [writer, back]
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer, replies=True))

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, replies: bool = False
    ) -> None:
        try:
            while data := await source.read(65536):
                if replies and self.drops_replies:
                    self.drops_replies = False
                    self.cut()
                    return
                if replies and self.garbles_greeting:
                    self.garbles_greeting = False
                    data += b"\0\0\0\x01x"
                if replies and self.breaks_after is not None:
                    await self._pass_some(data, source, sink, self.breaks_after)
                    self.breaks_after = None
                    self.cut(softly=True)
                    return
                sink.write(data)
        except ConnectionError:
            pass
        finally:
            sink.close()

    @staticmethod
    async def _pass_some(
        data: bytes, source: asyncio.StreamReader, sink: asyncio.StreamWriter, count: int
    ) -> None:
        """Pass the first frames of a stream that begins with `data`."""
        for _ in range(count):
            while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
                more = await source.read(65536)
                if not more:
                    raise ConnectionError("the server has closed")
                data += more
            end = 4 + int.from_bytes(data[:4])
            sink.write(data[:end])
            data = data[end:]

    def cut(self, *, softly: bool = False) -> None:
        """Break every connection, softly after what was sent."""
        for writer in self._writers:
            if softly:
                writer.close()
            else:
                writer.transport.abort()
        self._writers.clear()


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[ZnodeServer, int]]:
    znode_server = ZnodeServer(SystemClock(), SystemRandom())
    texts = {"clientPort": "0", "clientPortAddress": "127.0.0.1", "tickTime": "100"}
    server = RegistryServer(znode_server, RegistryServerConfig.parse(texts), TcpNetwork())
    await server.start()
    try:
        yield znode_server, server.port
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def opened(
    *ports: int,
    chroot: str = "",
    timeout_ms: int = 2000,
    connection_timeout_ms: int = 5000,
    random: Random | None = None,
) -> AsyncIterator[ZooKeeperRegistry]:
    registry = await ZooKeeperRegistry.open(
        TcpNetwork(),
        SystemRandom() if random is None else random,
        ",".join(f"127.0.0.1:{port}" for port in ports) + chroot,
        session_timeout_ms=timeout_ms,
        connection_timeout_ms=connection_timeout_ms,
    )
    try:
        yield registry
    finally:
        await registry.close()


@contextlib.asynccontextmanager
async def relayed(
    chroot: str = "", timeout_ms: int = 2000
) -> AsyncIterator[tuple[ZnodeServer, Relay, ZooKeeperRegistry]]:
    """A server, the way to it, and a client that takes it."""
    async with (
        serving() as (znode_server, port),
        Relay(port) as relay,
        opened(relay.port, chroot=chroot, timeout_ms=timeout_ms) as registry,
    ):
        yield znode_server, relay, registry


async def cut_off(relay: Relay, registry: ZooKeeperRegistry) -> None:
    """Break connections, and refuse new ones until the relay accepts again."""
    relay.refuses = True
    relay.cut()
    while registry.is_connected:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("connect", "members", "chroot"),
    [
        ("a:1", [("a", 1)], ""),
        ("a", [("a", 2181)], ""),
        ("a:1,b:2/x/y", [("a", 1), ("b", 2)], "/x/y"),
        (" a:1 , b:2 ", [("a", 1), ("b", 2)], ""),
        ("[::1]:5/", [("::1", 5)], ""),
    ],
)
def test_addresses_are_read_as_kafka_writes_them(connect, members, chroot):
    assert parse_connect(connect) == (members, chroot)


@pytest.mark.parametrize(
    "connect", ["", ":1", "a:", "a:x", "a:0", "a:1,,b:2", "a:1/x//y", "a:70000"]
)
def test_addresses_that_cannot_be_are_refused(connect: str) -> None:
    with pytest.raises(ValueError, match=r"zookeeper\.connect"):
        parse_connect(connect)


def test_a_write_whose_response_was_lost_is_not_done_twice() -> None:
    async def work() -> None:
        async with relayed() as (_keeper, relay, registry):
            await registry.create("/n", b"0")
            writes = [
                lambda: registry.create("/made", b"x"),
                lambda: registry.create("/mine", b"x", ephemeral=True),
                lambda: registry.set("/n", b"1", 0),
                lambda: registry.multi([Check("/made", 0), SetData("/n", b"2", 1), Create("/m")]),
                lambda: registry.delete("/m"),
                lambda: registry.multi([Delete("/made"), SetData("/n", b"3", 2)]),
            ]
            for write in writes:
                relay.drops_replies = True
                await write()
            data, stat = await registry.get("/n")
            assert (data, stat.version) == (b"3", 3)
            assert await registry.children("/") == ["mine", "n"]

    run(work())


def test_a_refusal_of_another_after_a_lost_response_is_a_refusal() -> None:
    async def work() -> None:
        async with relayed() as (znode_server, relay, registry):
            await LocalSession(znode_server).create("/theirs", b"other")
            relay.drops_replies = True
            with pytest.raises(RegistryRefused) as refused:
                await registry.create("/theirs", b"ours")
            assert refused.value.error is ZnodeError.NODE_EXISTS

    run(work())


def test_events_that_were_missed_come_with_the_next_connection() -> None:
    async def work() -> None:
        async with relayed("/inner") as (znode_server, relay, registry):
            other = LocalSession(znode_server)
            received: dict[str, Event] = {}
            await registry.create("/changed")
            await registry.create("/deleted")
            await registry.get("/changed", lambda event: received.update(changed=event))
            await registry.get("/deleted", lambda event: received.update(deleted=event))
            await registry.stat("/created", lambda event: received.update(created=event))
            await registry.children("/", lambda event: received.update(children=event))
            await cut_off(relay, registry)
            await other.set("/inner/changed", b"new")
            await other.delete("/inner/deleted")
            await other.create("/inner/created")
            relay.refuses = False
            await registry.stat("/")
            assert received == {
                "changed": Event(EventType.DATA_CHANGED, "/changed"),
                "deleted": Event(EventType.DELETED, "/deleted"),
                "created": Event(EventType.CREATED, "/created"),
                "children": Event(EventType.CHILDREN_CHANGED, "/"),
            }

    run(work())


def test_an_expired_session_is_notified_once_and_calls_are_refused_until_a_new_one() -> None:
    async def work() -> None:
        async with serving() as (znode_server, port), opened(port) as registry:
            await registry.create("/mine", ephemeral=True)
            lost: asyncio.Queue[int] = asyncio.Queue()
            registry.session_lost = lambda: lost.put_nowait(registry.session_id)
            first = registry.session_id
            znode_server.expire(first)
            assert await asyncio.wait_for(lost.get(), 60) == first
            with pytest.raises(ConnectionError, match="is over"):
                await registry.get("/")
            await registry.reconnect()
            assert registry.session_id != first
            assert await registry.stat("/mine") is None
            assert lost.empty()

    run(work())


def test_a_session_that_is_given_up_for_another_ends() -> None:
    """A refused registration is repeated; the controller znode of the session before must not wait for its timeout."""

    async def work() -> None:
        async with serving() as (znode_server, port), opened(port) as registry:
            await registry.create("/office", ephemeral=True)
            await registry.reconnect()
            assert await registry.stat("/office") is None
            assert len(znode_server.tree.clients) == 1

    run(work())


def test_what_was_asked_in_a_session_is_not_done_in_the_next() -> None:
    """The controller of the expired session may not write as the controller of the next."""

    async def work() -> None:
        async with relayed() as (znode_server, relay, registry):
            await cut_off(relay, registry)
            late = asyncio.ensure_future(registry.create("/late"))
            await asyncio.sleep(0)
            renewing = asyncio.ensure_future(registry.reconnect())
            await asyncio.sleep(0)
            relay.refuses = False
            await renewing
            with pytest.raises(ConnectionError, match="is over"):
                await late
            assert "/late" not in znode_server.tree

    run(work())


def test_a_call_waits_on_when_the_connection_that_it_waited_for_is_gone_already() -> None:
    async def work() -> None:
        async with relayed() as (_keeper, relay, registry):
            await cut_off(relay, registry)
            call = asyncio.ensure_future(registry.stat("/"))
            await asyncio.sleep(0)
            registry._connected.set()  # and lost before the call continues
            registry._connected.clear()
            await asyncio.sleep(0)
            relay.refuses = False
            assert await call is not None

    run(work())


def test_calls_wait_for_a_connection_and_no_longer_than_a_session() -> None:
    async def work() -> None:
        async with relayed(timeout_ms=400) as (_keeper, relay, registry):
            await cut_off(relay, registry)
            with pytest.raises(ZooKeeperUnreachable):
                await registry.get("/")

    run(work())


@pytest.mark.slow
def test_a_silent_member_is_given_up_for_another() -> None:
    async def work() -> None:
        async with serving() as (_keeper, port):
            silent = socket.create_server(("127.0.0.1", 0))  # no process accepts
            dead = silent.getsockname()[1]
            async with opened(
                dead, port, dead, timeout_ms=1500, connection_timeout_ms=20_000
            ) as registry:
                assert await registry.children("/") == []
            silent.close()

    run(work())


def test_a_watch_is_notified_before_its_data_can_be_read() -> None:
    async def work() -> None:
        async with serving() as (znode_server, port), opened(port) as registry:
            other = LocalSession(znode_server)
            await registry.create("/n", b"0")
            for number in range(1, 20):
                received: list[Event] = []
                await registry.get("/n", received.append)
                change = asyncio.ensure_future(other.set("/n", b"%d" % number))
                while (await registry.get("/n"))[0] != b"%d" % number:
                    assert len(received) <= 1
                assert len(received) == 1
                await change

    run(work())


def test_a_connection_that_breaks_right_behind_its_greeting_is_replaced() -> None:
    """The server sends senseless bytes in the same packet as the greeting."""

    async def work() -> None:
        async with serving() as (_keeper, port):
            relay = Relay(port)
            relay.garbles_greeting = True
            async with relay, opened(relay.port) as registry:
                assert not relay.garbles_greeting
                assert await registry.children("/") == []

    run(work())


def test_unwatched_paths_are_not_kept() -> None:
    async def work() -> None:
        async with serving() as (znode_server, port), opened(port) as registry:
            other = LocalSession(znode_server)
            assert await registry.stat("/asked") is None
            received: list[Event] = []
            assert await registry.stat("/watched", received.append) is None
            assert registry._watches.paths().exist == ["/watched"]
            await other.create("/watched")
            while not received:
                await registry.stat("/")
            assert registry._watches.paths().exist == []

    run(work())


def test_watches_that_were_not_set_again_yet_get_missed_events() -> None:
    """The first of two packets of watches is answered, with a newer transaction, when the connection breaks again."""

    async def work() -> None:
        async with relayed() as (znode_server, relay, registry):
            other = LocalSession(znode_server)
            received = asyncio.Event()
            for number in range(501):
                await other.create(f"/{number}")
                await registry.get(f"/{number}", lambda event: _set_at(received, event, "/500"))
            await cut_off(relay, registry)
            await other.set("/500", b"new")
            relay.breaks_after, relay.refuses = 2, False  # the greeting, and the first reply
            await asyncio.wait_for(received.wait(), 30)

    run(work())


def _set_at(received: asyncio.Event, event: Event, path: str) -> None:
    if event.path == path:
        received.set()


def test_a_member_that_fell_silent_is_tried_last() -> None:
    """Its connections are not refused: to wait for it first would use up what is left of the session."""

    async def work() -> None:
        async with (
            serving() as (_keeper, port),
            Relay(port) as a,
            Relay(port) as b,
            Relay(port) as c,
        ):
            for _ in range(12):
                async with opened(a.port, b.port, c.port) as registry:
                    (used,) = [relay for relay in (a, b, c) if relay.is_used]
                    accepted = used.accepted
                    await cut_off(used, registry)
                    await registry.stat("/")
                    assert used.accepted == accepted
                    used.refuses = False

    run(work())


class NoChance(SystemRandom):
    """Members are tried in the order in which they are named."""

    def random(self) -> float:
        return 0.0


@pytest.mark.slow
def test_a_silent_member_is_waited_for_by_the_time_out_that_was_granted() -> None:
    async def work() -> None:
        async with serving() as (_keeper, port), Relay(port) as relay:
            silent = socket.create_server(("127.0.0.1", 0))  # no process accepts
            ports = relay.port, silent.getsockname()[1]
            # 2000 ms are granted.
            async with opened(
                *ports, timeout_ms=60_000, connection_timeout_ms=20_000, random=NoChance()
            ) as registry:
                session_id = registry.session_id
                relay.cut()
                await registry.stat("/")
                assert registry.session_id == session_id
            silent.close()

    run(work())


def test_what_does_not_fit_into_a_packet_is_refused_and_keeps_the_connection() -> None:
    """The paths are longer on the wire: the chroot stands before them, and they are UTF-8."""

    async def work() -> None:
        async with (
            serving() as (_keeper, port),
            opened(port, chroot="/a-chroot-of-which-every-path-of-a-multi-has-a-copy") as registry,
        ):
            many = [Create(f"/{number}") for number in range(10_000)]
            connects = registry.connects
            for large in (
                registry.multi([*many, Create("/large", bytes(100_000))]),
                registry.create("/" + "\N{EURO SIGN}" * 400_000),
                registry.set("/", bytes(0xFFFFF - 60)),
            ):
                with pytest.raises(RegistryRefused) as refused:
                    await asyncio.wait_for(large, 20)
                assert refused.value.error is ZnodeError.BAD_ARGUMENTS
            assert registry.connects == connects
            await registry.set("/", bytes(0xFFFFF - 80))

    run(work())


def test_a_multi_that_is_refused_by_an_unknown_number_is_refused_as_one_operation_is() -> None:
    no_auth = -102
    body = multi_reply([(OpCode.ERROR, ErrorResponse(no_auth))])
    with pytest.raises(ServerRefused) as refused:
        read_multi(Reader(body), [Delete("/x")], str)
    assert refused.value.code == no_auth


def test_a_server_that_greets_without_sense_is_given_up_at_once() -> None:
    async def work() -> None:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"\0\0\0\x01x")
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()

        async with serving() as (_keeper, port):
            senseless = await asyncio.start_server(greet, "127.0.0.1", 0)
            wrong = senseless.sockets[0].getsockname()[1]
            for _ in range(4):
                async with opened(
                    wrong, port, timeout_ms=120_000, connection_timeout_ms=20_000
                ) as registry:
                    assert registry.is_connected
            senseless.close()

    run(work())


def test_a_watch_that_is_set_again_and_again_is_kept_once() -> None:
    async def work() -> None:
        async with serving() as (znode_server, port), opened(port) as registry:
            received: list[Event] = []
            for _ in range(5):
                await registry.stat("/n", received.append)
                await registry.children("/", received.append)
            table = registry._watches.table
            assert (
                len(table.watchers_of("/n", WatchKind.NODE))
                == len(table.watchers_of("/", WatchKind.CHILD))
                == 1
            )
            assert len(table) == 2
            await LocalSession(znode_server).create("/n")
            await registry.stat("/")
            assert sorted(event.path for event in received) == ["/", "/n"]

    run(work())
