"""A listener accepts as long as there are descriptors to spare."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
from collections.abc import Iterator
from typing import ClassVar

import pytest

from kavka.net.network import TcpNetwork


class Quiet:
    """Takes what comes and answers nothing."""

    open: ClassVar[set[Quiet]] = set()

    def connection_made(self, transport: object) -> None:
        self.memory = bytearray(100)
        self.open.add(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.memory

    def buffer_updated(self, nbytes: int) -> None:
        pass

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.open.discard(self)

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 100, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.usefixtures("few_descriptors")
def test_connections_leave_descriptors_for_files() -> None:
    async def story() -> None:
        listener = await TcpNetwork().listen("127.0.0.1", 0, Quiet)
        clients = []
        for _ in range(100):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            clients.append(writer)
            try:
                refused = await asyncio.wait_for(reader.read(), 0.1)
            except TimeoutError:
                continue
            assert refused == b""
            break
        else:
            pytest.fail("every connection was accepted")
        files = [os.open("/dev/null", os.O_RDONLY) for _ in range(15)]
        for file in files:
            os.close(file)
        listener.close()
        for writer in clients:
            writer.close()
            await writer.wait_closed()
        while Quiet.open:  # noqa: ASYNC110 - there is no event for the last one's end
            await asyncio.sleep(0)

    asyncio.run(story())


def test_an_unknown_host_is_named() -> None:
    async def story() -> None:
        with pytest.raises(OSError, match=r"unknown\.invalid:9092"):
            await TcpNetwork().listen("unknown.invalid", 9092, Quiet)

    asyncio.run(story())


def test_an_accepted_socket_is_closed_when_its_protocol_cannot_begin() -> None:
    def make() -> Quiet:
        raise AssertionError("a mistake")

    async def story() -> None:
        errors: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: errors.append(context["exception"])
        )
        listener = await TcpNetwork().listen("127.0.0.1", 0, make)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        assert [str(error) for error in errors] == ["a mistake"]
        listener.close()
        writer.close()

    asyncio.run(story())
