"""The same seed gives the same run: in one process twice, and in processes with other hash seeds."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

from kavka.simulation.environment import SimEnvironment
from kavka.simulation.world import World

pytestmark = pytest.mark.slow


class Echo:
    """A wire that sends back what it hears."""

    def __init__(self) -> None:
        self._buffer = bytearray(1000)
        self.count = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.count += nbytes
        self.transport.write(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool | None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.count = -1

    def pause_writing(self) -> None:
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.transport.resume_reading()


def digest(seed: int) -> str:
    world = World(seed)
    world.network.weather.cutting = 0.5

    async def serve(environment: SimEnvironment) -> None:
        await environment.network.listen("", 80, Echo)
        file = environment.disk.open("/log", create=True)
        while True:
            async with asyncio.TaskGroup() as group:
                for name in "abcde":
                    group.create_task(environment.disk.run(file.write_at, b"x" * 100, ord(name)))
                group.create_task(asyncio.sleep(environment.random.random()))

    async def use(environment: SimEnvironment) -> None:
        wires = [await environment.network.connect("server", 80, Echo) for _ in range(3)]
        for protocol in wires:
            assert isinstance(protocol, Echo)
            protocol.transport.write(environment.random.random_bytes(2000))
        waits = {
            asyncio.ensure_future(asyncio.sleep(environment.random.random())) for _ in range(9)
        }
        while waits:
            done, waits = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            world.trace.add("client", " ".join(task.get_name() for task in done))
        await asyncio.sleep(2)

    async def main() -> None:
        world.node("server").start(serve)
        client = world.node("client").start(use)
        await asyncio.sleep(1)
        world.node("server").lose_power()
        world.node("server").start(serve)
        await client.ended

    world.run(main())
    assert world.failures == []
    return world.trace.digest()


def test_the_same_seed_is_the_same_run_and_another_is_another() -> None:
    assert digest(5) == digest(5)
    assert digest(5) != digest(6)


def test_hash_seeds_do_not_change_a_run() -> None:
    digests = set()
    for hash_seed in ("0", "1", "7"):
        finished = subprocess.run(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(finished.stdout.strip())
    assert digests == {digest(5)}


if __name__ == "__main__":
    print(digest(5))
