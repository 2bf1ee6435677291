"""The network of the simulation: TCP's promises, and everything TCP does not promise."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from kavka.io import Transport
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.world import Node, World


class Ear:
    """A wire that remembers."""

    def __init__(self) -> None:
        self.transport: Transport
        self.heard = bytearray()
        self.events: list[str] = []
        self.sizes: list[int] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._buffer = bytearray(1 << 16)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.heard += self._buffer[:nbytes]
        self.sizes.append(nbytes)

    def eof_received(self) -> bool | None:
        self.events.append("eof")
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.lost.set_result(exc)

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


class Pair:
    """A server and a client program on two nodes, with the wires they made."""

    def __init__(self, seed: int = 0) -> None:
        self.world = World(seed)
        self.server: Node = self.world.node("server")
        self.client: Node = self.world.node("client")
        self.accepted: list[Ear] = []

    async def serve(self, environment: SimEnvironment) -> None:
        await environment.network.listen("server", 9092, self._make)
        await asyncio.sleep(1e6)

    def _make(self) -> Ear:
        self.accepted.append(Ear())
        return self.accepted[-1]

    async def dial(self) -> Ear:
        response: asyncio.Future[Ear] = asyncio.get_running_loop().create_future()

        async def program(environment: SimEnvironment) -> None:
            try:
                protocol = await environment.network.connect("server", 9092, Ear)
            except OSError as error:
                response.set_exception(error)
                return
            assert isinstance(protocol, Ear)
            response.set_result(protocol)
            await asyncio.sleep(1e6)

        self.client.start(program)
        return await response

    async def open(self) -> tuple[Ear, Ear]:
        self.server.start(self.serve)
        await asyncio.sleep(0.1)
        near = await self.dial()
        await asyncio.sleep(0.1)
        return near, self.accepted[0]


class Range:
    """A range of a file, counting its releases."""

    def __init__(self, file: Any, position: int, length: int) -> None:
        self.file, self.position, self.length = file, position, length
        self.released = 0

    def release(self) -> None:
        self.released += 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_bytes_arrive_in_order_cut_anywhere(seed: int) -> None:
    pair = Pair(seed)
    pair.world.network.weather.hiccup = 0.2
    pair.world.network.weather.cutting = 0.7
    sent = bytes(range(256)) * 2000

    async def main() -> Ear:
        near, far = await pair.open()
        for start in range(0, len(sent), 5000):
            near.transport.write(sent[start : start + 5000])
            await asyncio.sleep(0.0001)
        await asyncio.sleep(60)
        return far

    far = pair.world.run(main())
    assert far.heard == sent
    assert len(set(far.sizes)) > 10


def test_a_slow_reader_pauses_the_writer_and_frees_it_later() -> None:
    pair = Pair()

    async def main() -> tuple[Ear, Ear]:
        near, far = await pair.open()
        far.transport.pause_reading()
        near.transport.writelines([bytes(100_000), bytes(100_000)])
        await asyncio.sleep(1)
        assert near.events == ["pause"]
        assert len(far.heard) < 70_000
        far.transport.resume_reading()
        await asyncio.sleep(1)
        return near, far

    near, far = pair.world.run(main())
    assert near.events == ["pause", "resume"]
    assert len(far.heard) == 200_000


def test_ranges_of_files_are_read_when_sent_and_released_once() -> None:
    pair = Pair()

    async def main() -> None:
        near, far = await pair.open()
        process = pair.server.process
        assert process is not None
        process_disk = pair.server.disk.for_process(process)
        file = process_disk.open("/f", create=True)
        file.write_at(b"0123456789", 0)
        part, short = Range(file, 2, 5), Range(file, 8, 5)
        far.transport.writelines([b"<", part, b">"])
        await asyncio.sleep(1)
        assert near.heard == b"<23456>"
        assert part.released == 1
        far.transport.write(bytes(100))
        far.transport.writelines([short, b"never"])
        await near.lost
        assert short.released == 1
        assert isinstance(await far.lost, OSError)

    pair.world.run(main())


def test_closing_sends_what_is_queued_and_then_says_so() -> None:
    pair = Pair()

    async def main() -> tuple[Ear, Ear]:
        near, far = await pair.open()
        near.transport.write(bytes(300_000))
        near.transport.close()
        assert await far.lost is None
        return near, far

    near, far = pair.world.run(main())
    assert len(far.heard) == 300_000
    assert far.events == ["eof", "lost"]
    assert near.lost.result() is None


def test_the_kernel_of_a_killed_process_closes_its_connections() -> None:
    pair = Pair()

    async def main() -> Ear:
        near, far = await pair.open()
        far.transport.write(b"last words")
        pair.server.kill()
        await near.lost
        return near

    near = pair.world.run(main())
    assert near.heard == b"last words"
    assert near.events == ["eof", "lost"]


def test_a_host_without_power_says_nothing_until_it_is_back() -> None:
    pair = Pair()

    async def main() -> None:
        near, _ = await pair.open()
        pair.server.lose_power()
        near.transport.write(b"hello?")
        await asyncio.sleep(100)
        assert near.events == []
        pair.server.start(pair.serve)
        assert isinstance(await near.lost, ConnectionResetError)

    pair.world.run(main())


def test_a_port_without_listener_refuses_and_an_absent_host_times_out() -> None:
    pair = Pair()

    async def main() -> None:
        with pytest.raises(ConnectionRefusedError):
            await pair.dial()
        await asyncio.sleep(0.1)
        pair.server.lose_power()
        started = pair.world.loop.time()
        with pytest.raises(TimeoutError) as caught:
            await pair.dial()
        assert caught.value.errno == errno.ETIMEDOUT
        assert pair.world.loop.time() - started > 10

    pair.world.run(main())


def test_an_unknown_name_and_a_taken_port_are_errors() -> None:
    world = World(0)
    seen: list[str] = []

    async def program(environment: SimEnvironment) -> None:
        with pytest.raises(OSError, match="no node is called"):
            await environment.network.connect("nowhere", 1, Ear)
        first = await environment.network.listen("", 0, Ear)
        with pytest.raises(OSError, match="already in use"):
            await environment.network.listen("", first.port, Ear)
        first.close()
        await environment.network.listen("127.0.0.1", first.port, Ear)
        seen.append("done")

    async def main() -> None:
        process = world.node("a").start(program)
        await process.ended

    world.run(main())
    assert seen == ["done"]
    assert world.failures == []


def test_a_cut_link_delays_and_only_its_own_direction() -> None:
    pair = Pair()

    async def main() -> None:
        near, far = await pair.open()
        pair.world.network.cut("client", "server", both_ways=False)
        near.transport.write(b"one")
        near.transport.write(b"two")
        far.transport.write(b"back")
        await asyncio.sleep(50)
        assert (bytes(far.heard), bytes(near.heard)) == (b"", b"back")
        pair.world.network.heal()
        await asyncio.sleep(1)
        assert far.heard == b"onetwo"

    pair.world.run(main())


def test_broken_connections_are_reset_on_both_sides() -> None:
    pair = Pair()

    async def main() -> None:
        near, far = await pair.open()
        assert pair.world.network.break_connections(1.0, pair.world.network._source) == 1
        assert isinstance(await near.lost, ConnectionResetError)
        assert isinstance(await far.lost, ConnectionResetError)

    pair.world.run(main())


def test_a_paused_process_holds_its_senders_back() -> None:
    pair = Pair()

    async def main() -> None:
        near, far = await pair.open()
        pair.server.pause()
        near.transport.write(bytes(500_000))
        await asyncio.sleep(10)
        assert not far.heard
        assert near.events == ["pause"]
        pair.server.resume()
        await asyncio.sleep(10)
        assert len(far.heard) == 500_000

    pair.world.run(main())


def test_a_wire_that_raises_loses_its_connection_and_is_reported() -> None:
    pair = Pair()

    async def main() -> None:
        near, far = await pair.open()
        far.buffer_updated = None  # type: ignore[assignment, method-assign]
        near.transport.write(b"x")
        await near.lost

    pair.world.run(main())
    assert isinstance(pair.world.failures[0].exception, TypeError)
    assert pair.world.failures[0].source == "server"


def test_narrow_links_take_their_time() -> None:
    pair = Pair()
    pair.world.network.weather.bytes_per_s = 10_000

    async def main() -> float:
        near, far = await pair.open()
        started = pair.world.loop.time()
        near.transport.write(bytes(50_000))
        near.transport.close()
        await far.lost
        return pair.world.loop.time() - started

    assert 5 < pair.world.run(main()) < 6
