"""Under TLS, too, buffers and file ranges leave in order, slow readers are noticed, and nothing leaks."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kavka.net.tls.handshakes import Handshakes
from kavka.net.tls.server import ListenerTls
from kavka.net.tls.settings import parse_settings
from kavka.net.tls.transport import TlsSession, TlsTransport
from support.certificates import Authority
from support.examples import examples
from support.transports import Range, RecordingProtocol

AUTHORITY = Authority()


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server's context and a client's."""
    directory = tmp_path_factory.mktemp("tls")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(AUTHORITY.sign().write_pem(directory / "broker.pem"))
    client = ssl.create_default_context(cafile=AUTHORITY.write_pem(directory / "ca.pem"))
    return server, client


class Client:
    """The other end: OpenSSL in memory over a socket of the loop."""

    def __init__(self, context: ssl.SSLContext, sock: socket.socket) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.socket = sock
        self._loop = asyncio.get_running_loop()

    def shake(self, session: TlsSession) -> None:
        """Do the handshake with a session in this process."""
        for _ in range(4):
            for one in (self.object, session.object):
                with suppress(ssl.SSLWantReadError):
                    one.do_handshake()
                self.incoming.write(session.outgoing.read())
                session.incoming.write(self.outgoing.read())

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.object.write(view) :]
        await self._loop.sock_sendall(self.socket, self.outgoing.read())

    async def receive(self, length: int = 1 << 62) -> bytes:
        """Return so many bytes, fewer if the broker's side ends."""
        found = bytearray()
        while len(found) < length:
            try:
                data = self.object.read(min(length - len(found), 1 << 20))
            except ssl.SSLWantReadError:
                more = await self._loop.sock_recv(self.socket, 1 << 16)
                if not more:
                    raise ConnectionError("no end of TLS before that of TCP") from None
                self.incoming.write(more)
                continue
            if not data:
                break
            found += data
        return bytes(found)


Story = Callable[[TlsTransport, RecordingProtocol, Client], Awaitable[None]]


def connected(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], story: Story, buffer_bytes: int = 65536
) -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        wire = RecordingProtocol(buffer_bytes)
        session = TlsSession(contexts[0], bytearray(64 << 10))
        client = Client(contexts[1], theirs)
        client.shake(session)
        transport = TlsTransport(ours, wire, session, high_bytes=100_000)
        try:
            await story(transport, wire, client)
        finally:
            transport.abort()
            theirs.close()
            await asyncio.wait_for(wire.lost, 60)

    asyncio.run(run())


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(parts=st.lists(st.tuples(st.booleans(), st.integers(0, 200_000)), max_size=12))
def test_buffers_and_ranges_leave_in_order(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], tmp_path: Path, parts: list[tuple[bool, int]]
) -> None:
    path = tmp_path / "log"
    content = bytes(number % 251 for number in range(200_000))
    path.write_bytes(content)

    async def story(transport: TlsTransport, wire: RecordingProtocol, client: Client) -> None:
        ranges: list[Range] = []
        expected, queued = b"", []
        for is_range, length in parts:
            if is_range:
                one = Range(path, 0, length)
                ranges.append(one)
                queued.append(one)
            else:
                queued.append(content[:length])  # type: ignore[arg-type]
            expected += content[:length]
        transport.writelines(queued)
        transport.close()
        assert await client.receive() == expected
        await wire.lost
        assert [one.released for one in ranges] == [1] * len(ranges)
        assert transport.get_write_buffer_size() == 0

    connected(contexts, story)


def test_a_slow_reader_is_noticed_and_costs_little_memory(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(4_000_000))

    async def story(transport: TlsTransport, wire: RecordingProtocol, client: Client) -> None:
        for _ in range(5):
            transport.writelines((Range(path, 0, 4_000_000),))
        assert transport.get_write_buffer_size() < 100_000
        transport.write(bytes(150_000))
        assert wire.pauses == ["pause"]
        assert len(await client.receive(20_150_000)) == 20_150_000
        assert wire.pauses == ["pause", "resume"]

    connected(contexts, story)


def test_a_range_that_is_shorter_than_promised_closes_the_connection(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(100_000))

    async def story(transport: TlsTransport, wire: RecordingProtocol, client: Client) -> None:
        short = Range(path, 0, 100_001)
        transport.writelines((short,))
        assert "ended 1 bytes before" in str(await wire.lost)
        assert short.released == 1

    connected(contexts, story)


@pytest.mark.parametrize("buffer_bytes", [1, 3, 1000, 65536])
def test_all_that_was_sent_is_received_whatever_the_buffer(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], buffer_bytes: int
) -> None:
    async def story(transport: TlsTransport, wire: RecordingProtocol, client: Client) -> None:
        sent = bytes(number % 251 for number in range(20_000 if buffer_bytes < 10 else 400_000))
        await client.send(sent)
        client.socket.shutdown(socket.SHUT_WR)
        await wire.lost
        assert wire.received == sent

    connected(contexts, story, buffer_bytes)


def test_what_openssl_holds_is_given_after_a_pause(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async def story(transport: TlsTransport, wire: RecordingProtocol, client: Client) -> None:
        wire.pauses_after = 1
        await client.send(b"x" * 10_000)
        for expected in range(1000, 10_001, 1000):
            await wire.until_received(expected)
            assert len(wire.received) == expected
            transport.resume_reading()

    connected(contexts, story, 1000)


def test_a_mistake_of_the_protocol_closes_the_connection_and_reaches_the_loop(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async def story(transport: TlsTransport, wire: RecordingProtocol, client: Client) -> None:
        loop, seen = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
        wire.mistake = AssertionError("a mistake")
        await client.send(b"y")
        assert await asyncio.wait_for(asyncio.shield(wire.lost), 60) is None
        assert seen == [wire.mistake]

    connected(contexts, story)


def test_damaged_records_close_the_connection(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async def story(transport: TlsTransport, wire: RecordingProtocol, client: Client) -> None:
        client.object.write(b"hello")
        sealed = bytearray(client.outgoing.read())
        sealed[-1] ^= 1
        client.socket.send(sealed)
        assert isinstance(await wire.lost, ssl.SSLError)
        assert not wire.received

    connected(contexts, story)


def test_bytes_that_came_with_the_handshake_are_not_lost(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        session = TlsSession(contexts[0], bytearray(64 << 10))
        client = Client(contexts[1], theirs)
        client.shake(session)
        client.object.write(b"early")
        session.incoming.write(client.outgoing.read())
        wire = RecordingProtocol()
        transport = TlsTransport(ours, wire, session)
        await wire.until_received(5)
        assert wire.received == b"early"
        transport.abort()
        await wire.lost
        theirs.close()

    asyncio.run(run())


class Leaving(socket.socket):
    """A socket whose client has gone by the time of the second question for its name."""

    is_asked = False

    def getpeername(self) -> object:
        if self.is_asked:
            raise OSError("the socket is not connected")
        self.is_asked = True
        return super().getpeername()


def test_a_client_that_leaves_after_its_handshake_has_the_name_by_which_it_was_counted(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], tmp_path: Path
) -> None:
    location = AUTHORITY.sign().write_pem(tmp_path / "broker.pem")
    given = {"ssl.keystore.type": "PEM", "ssl.keystore.location": location}

    async def run() -> None:
        made: asyncio.Future[RecordingProtocol] = asyncio.get_running_loop().create_future()

        def make() -> RecordingProtocol:
            made.set_result(RecordingProtocol())
            return made.result()

        handshakes = Handshakes(ListenerTls("SSL", parse_settings(given.get)), make, 1 << 20)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            connecting = asyncio.open_connection(
                "127.0.0.1", port, ssl=contexts[1], server_hostname="localhost"
            )
            client = asyncio.create_task(connecting)
            listening.setblocking(False)
            accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
            sock = Leaving(fileno=accepted.detach())
            sock.setblocking(False)
            handshakes.begin(sock)
            protocol = await asyncio.wait_for(made, 60)
            assert protocol.transport.get_extra_info("peername")[0] == "127.0.0.1"
            _, writer = await client
            writer.close()
            await asyncio.wait_for(protocol.lost, 60)
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            handshakes.close()

    asyncio.run(run())
