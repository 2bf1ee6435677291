"""Thousands of half-open handshakes, and handshakes with damaged bytes: memory is bounded, and others get through."""

from __future__ import annotations

import asyncio
import random
import resource
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from kavka.net.event_loop import MeasuredEventLoop
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from support.one_broker import Served, serve
from support.tls import TlsFiles

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(300)]


def client_hello() -> bytes:
    context = ssl.create_default_context()
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def run(files: TlsFiles, story: object, **settings: str) -> None:
    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        given = files.broker_settings(**settings)
        runner.run(serve(files.directory / "data", story, files.security(), **given))  # type: ignore[arg-type]


@pytest.mark.long
def test_half_open_handshakes_take_little_and_others_get_through(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    waves, in_wave = 20, min(400, limit // 8)

    async def story(served: Served) -> None:
        hello, before = client_hello(), resident_bytes()
        for _ in range(waves):
            writers = []
            for number in range(in_wave):
                _reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
                writer.write(hello[: number * len(hello) // in_wave])
                writers.append(writer)
            security = files.security()
            peer = await Peer.connect(TcpNetwork(), "127.0.0.1", served.port, security=security)
            peer.close()
            for writer in writers:
                writer.transport.abort()
        tls = served.broker.security.tls
        assert tls is not None
        # Both ends are in this process: 100 KB for both of each open pair would be too much.
        assert resident_bytes() - before < (in_wave + 200) * 100_000

    run(
        files, story, kavka__ssl__max__handshakes="200", kavka__ssl__handshake__timeout__ms="600000"
    )


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_damaged_handshakes_end_and_the_broker_serves_on(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path)
    chance = random.Random(20)

    async def story(served: Served) -> None:
        hello = client_hello()
        for _ in range(300):
            data = bytearray(hello)
            for _ in range(chance.randint(1, 8)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            cut = data[: chance.randint(1, len(data))]
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(bytes(cut))
            writer.write_eof()
            with suppress(ConnectionResetError):
                await reader.read()
            writer.close()
        await served.topic("t")
        assert (await served.produce("t", b"value")).error_code == 0

    run(files, story)
