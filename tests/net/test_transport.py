"""Buffers and file ranges leave in order; slow readers are noticed; nothing leaks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kavka.net.transport import SocketTransport
from support.examples import examples
from support.transports import Range, RecordingProtocol


def connected(
    story: Callable[[SocketTransport, RecordingProtocol, socket.socket], Awaitable[None]],
) -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        wire = RecordingProtocol()
        transport = SocketTransport(ours, wire, high_bytes=100_000)
        try:
            await story(transport, wire, theirs)
        finally:
            transport.abort()
            theirs.close()
            await asyncio.wait_for(wire.lost, 60)

    asyncio.run(run())


async def read(sock: socket.socket, count: int) -> bytes:
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < count:
        more = await loop.sock_recv(sock, count - len(data))
        if not more:
            break
        data += more
    return data


@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.tuples(st.booleans(), st.one_of(st.integers(0, 300_000), st.integers(16_380, 16_390))),
        max_size=80,
    )
)
def test_parts_leave_in_order_whatever_their_kind(
    tmp_path: Path, parts: list[tuple[bool, int]]
) -> None:
    content = bytes(range(256)) * 1200
    path = tmp_path / "log"
    path.write_bytes(content)

    async def story(
        transport: SocketTransport, wire: RecordingProtocol, theirs: socket.socket
    ) -> None:
        expected, queued = b"", []
        for number, (is_range, size) in enumerate(parts):
            if is_range:
                size = min(size, len(content) - number)
                queued.append(Range(path, number, size))
                expected += content[number : number + size]
            else:
                queued.append(bytes([number]) * (size // 50))  # type: ignore[arg-type]
                expected += queued[-1]  # type: ignore[operator]
        transport.writelines(queued)
        assert await read(theirs, len(expected)) == expected
        await asyncio.sleep(0)
        ranges = [part for part in queued if isinstance(part, Range)]
        assert all(part.released == 1 for part in ranges)

    connected(story)


def test_a_reader_that_sleeps_pauses_the_wire_and_wakes_it(tmp_path: Path) -> None:
    async def story(
        transport: SocketTransport, wire: RecordingProtocol, theirs: socket.socket
    ) -> None:
        transport.write(b"x" * 2_000_000)
        assert wire.pauses == ["pause"]
        await read(theirs, 2_000_000)
        await asyncio.sleep(0)
        assert wire.pauses == ["pause", "resume"]

    connected(story)


@pytest.mark.parametrize(("size", "came"), [(10, b""), (20_000, b"sizeshort")])
def test_a_file_that_is_shorter_than_promised_ends_the_connection(
    tmp_path: Path, size: int, came: bytes
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"short")

    async def story(
        transport: SocketTransport, wire: RecordingProtocol, theirs: socket.socket
    ) -> None:
        part, behind = Range(path, 0, size), Range(path, 0, 5)
        transport.writelines([b"size", part, b"next", behind])
        assert f"ended {size - 5} bytes before" in str(await wire.lost)
        assert (part.released, behind.released) == (1, 1)
        assert await read(theirs, 100) == came


def test_short_ranges_stay_in_the_file_when_much_waits(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 16_000)

    async def story(
        transport: SocketTransport, wire: RecordingProtocol, theirs: socket.socket
    ) -> None:
        transport.write(b"y" * 2_000_000)
        part = Range(path, 0, 16_000)
        transport.writelines([part])
        assert part.released == 0
        assert len(await read(theirs, 2_016_000)) == 2_016_000
        assert part.released == 1

    connected(story)


def test_what_waits_is_released_when_the_peer_goes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 4_000_000)

    async def story(
        transport: SocketTransport, wire: RecordingProtocol, theirs: socket.socket
    ) -> None:
        parts = [Range(path, 0, 4_000_000) for _ in range(3)]
        transport.writelines(parts)
        theirs.close()
        await asyncio.wait_for(wire.lost, 60)
        late = Range(path, 0, 1)
        transport.writelines([late])
        assert [part.released for part in [*parts, late]] == [1, 1, 1, 1]

    connected(story)


def test_close_sends_what_is_queued(tmp_path: Path) -> None:
    async def story(
        transport: SocketTransport, wire: RecordingProtocol, theirs: socket.socket
    ) -> None:
        transport.write(b"x" * 1_000_000)
        transport.close()
        assert len(await read(theirs, 1_000_001)) == 1_000_000
        assert await wire.lost is None

    connected(story)


@pytest.mark.parametrize("size", [1, 70_000])
def test_bytes_are_received(size: int) -> None:
    async def story(
        transport: SocketTransport, wire: RecordingProtocol, theirs: socket.socket
    ) -> None:
        await asyncio.get_running_loop().sock_sendall(theirs, b"y" * size)
        theirs.shutdown(socket.SHUT_WR)
        await asyncio.wait_for(wire.lost, 60)
        assert wire.received == b"y" * size

    connected(story)


def test_a_mistake_of_the_protocol_closes_the_connection_and_reaches_the_loop() -> None:
    async def story(
        transport: SocketTransport, wire: RecordingProtocol, theirs: socket.socket
    ) -> None:
        loop, seen = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
        wire.mistake = AssertionError("a mistake")
        await loop.sock_sendall(theirs, b"y")
        assert await asyncio.wait_for(asyncio.shield(wire.lost), 60) is None
        assert seen == [wire.mistake]

    connected(story)


def test_one_buffer_that_the_socket_takes_in_part_leaves_whole_and_before_the_next() -> None:
    async def story(
        transport: SocketTransport, wire: RecordingProtocol, theirs: socket.socket
    ) -> None:
        response = bytearray(range(256)) * 8000
        transport.writelines([response])
        transport.writelines([bytearray(b"next")])
        assert wire.pauses == ["pause"]
        assert await read(theirs, len(response) + 4) == bytes(response) + b"next"
        assert wire.pauses == ["pause", "resume"]
        assert transport.get_extra_info("bytes_sent") == len(response) + 4

    connected(story)


def test_one_buffer_for_a_peer_that_is_gone_ends_the_connection() -> None:
    async def story(
        transport: SocketTransport, wire: RecordingProtocol, theirs: socket.socket
    ) -> None:
        theirs.close()
        transport.pause_reading()
        transport.writelines([bytearray(b"answer")])
        assert transport.is_closing()
        assert isinstance(await asyncio.wait_for(asyncio.shield(wire.lost), 60), OSError)

    connected(story)


def test_what_the_peer_has_not_read_is_counted_until_it_has() -> None:
    async def story(
        transport: SocketTransport, _wire: RecordingProtocol, theirs: socket.socket
    ) -> None:
        sizes: list[int] = []
        transport.call_when_sent(lambda: sizes.append(transport.get_write_buffer_size()))
        transport.write(b"small")
        assert transport.get_write_buffer_size() == 0
        transport.write(bytearray(4 << 20))
        sizes.append(transport.get_write_buffer_size())
        assert sizes[0] > 1 << 20
        await read(theirs, (4 << 20) + 5)
        while sizes[-1]:  # noqa: ASYNC110 - the last callback comes with the last bytes
            await asyncio.sleep(0)
        assert sizes == sorted(sizes, reverse=True)

    connected(story)
