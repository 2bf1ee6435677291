"""Hostile clients before authentication: random frames, wrong passwords, many at once. No data leaves the broker."""

from __future__ import annotations

import asyncio
import random
import resource
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from kavka.client.admin import Admin, ScramUpsertion
from kavka.errors import AuthenticationFailed
from kavka.net.event_loop import MeasuredEventLoop
from kavka.wire.apis import APIS
from support.sasl import Server, served
from support.waiting import until

pytestmark = pytest.mark.fuzz
_BEFORE_AUTHENTICATION = (17, 18, 36)
_MECHANISMS = (b"PLAIN", b"SCRAM-SHA-256", b"GSSAPI", b"")
_TOKENS = (
    b"\0alice\0guess",
    b"n,,n=alice,r=nonce",
    b"n,,n=alice,r=",
    b"n,,n=alice,r=nonce,tokenauth=true",
    b"c=biws,r=nonce,p=AAAA",
    b"",
    b"\0" * 300_000,
)

_FRAMES_TO_BE_WARM = 2_000
_MAX_GROWTH = 48 << 20


class Client:
    """One connection of a hostile client: it sends frames, and keeps what comes back."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._sent: dict[int, int] = {}
        self.sent = self.answered = 0

    async def attack(self, port: int, frames: int) -> None:
        """Send frames until the broker closes the connection; fail if it answers what needs authentication."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        reading = asyncio.create_task(self._read(reader))
        for number in range(frames):
            writer.write(self._frame(number))
            self.sent += 1
            for _ in range(4):  # so that answers come before the frame that ends the connection
                await asyncio.sleep(0)
            if reading.done():
                break
        with suppress(OSError):  # the broker has closed it already
            if self._chance.random() < 0.1:
                writer.write(self._chance.choice((b"\0\0\1\0half", b"\0\0")))
                writer.write_eof()
            else:
                writer.write(self._request(3, 9, frames) + b"\0")
        await reading
        writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while True:
            try:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                response = await reader.readexactly(size)
            except (asyncio.IncompleteReadError, OSError):
                return
            self.answered += 1
            if size >= 4:
                key = self._sent.get(int.from_bytes(response[:4], "big"))
                assert key is None or key in _BEFORE_AUTHENTICATION, key

    def _frame(self, number: int) -> bytes:
        chance = self._chance
        if number == 0 and chance.random() < 0.7:
            return self._request(17, chance.randrange(2), number)
        kind = chance.random()
        if kind < 0.2:
            frame = chance.randbytes(chance.randrange(60))
        else:
            key = chance.choice(list(APIS)) if kind < 0.5 else chance.choice((17, 18, 36, 36))
            version = chance.randrange(APIS[key].max_version + 2)
            return self._request(key, version, number)
        size = len(frame) if chance.random() < 0.97 else chance.choice((-1, 1 << 30, 600_000))
        return struct.pack(">i", size) + frame

    def _request(self, key: int, version: int, number: int) -> bytes:
        # The high byte is one that no token of SCRAM has.
        correlation = 0x7F000000 | self._chance.randrange(1 << 16) << 8 | number
        self._sent[correlation] = key
        frame = struct.pack(">hhih", key, version, correlation, -1) + self._body(key, version)
        return struct.pack(">i", len(frame)) + frame

    def _body(self, key: int, version: int) -> bytes:
        chance = self._chance
        if key == 17 and chance.random() < 0.9:
            name = chance.choice(_MECHANISMS)
            return struct.pack(">h", len(name)) + name
        if key == 36 and version < 2 and chance.random() < 0.9:
            token = chance.choice(_TOKENS)
            return struct.pack(">i", len(token)) + token
        return chance.randbytes(chance.randrange(40))


async def attack(directory: Path, frames: int, seed: int) -> int:
    """Send so many frames over connections of 1 to 40; return how many were answered."""
    answered = 0
    async with served(directory, **{"delegation.token.secret.key": "secret"}) as server:
        dispatcher = server.broker.dispatcher
        chance = random.Random(seed)
        left, warm_bytes = frames, 0
        while left > 0:
            clients = []
            for _ in range(20):
                count = chance.randrange(1, 41)
                clients.append((Client(random.Random(chance.random())), count))
            await asyncio.gather(*(client.attack(server.port, n) for client, n in clients))
            answered += sum(client.answered for client, _ in clients)
            left -= sum(client.sent for client, _ in clients)
            if not warm_bytes and left < frames - _FRAMES_TO_BE_WARM:
                warm_bytes = resident_bytes()
        # Delayed refusals outlive the connections of impatient clients for a moment.
        await until(lambda: not dispatcher.connections)
        await until(lambda: not server.broker.request_budget.held_bytes)
        assert all(not is_success for _, _, is_success in server.counts)
        (await server.connect("alice", "alice secret")).close()
        assert not dispatcher.refusals.failed
    # Of broker and clients, which are in one process.
    assert resident_bytes() - warm_bytes < _MAX_GROWTH
    return answered


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def run(directory: Path, frames: int, seed: int) -> int:
    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        return runner.run(attack(directory, frames, seed))


def test_random_frames_before_authentication_get_no_data(tmp_path: Path) -> None:
    answered = run(tmp_path, 3_000, seed=1)
    assert answered > 100, answered


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_million_random_frames_before_authentication_get_no_data(tmp_path: Path) -> None:
    assert run(tmp_path, 1_000_000, seed=2) > 10_000


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.timeout(1800)
def test_many_wrong_passwords_neither_succeed_nor_keep_others_out(
    tmp_path: Path, count: int
) -> None:
    async def guess(server: Server, number: int) -> None:
        mechanism = "SCRAM-SHA-256" if number % 4 == 0 else "PLAIN"
        with pytest.raises(AuthenticationFailed):
            await server.connect(("alice", "mallory")[number % 2], f"guess {number}", mechanism)

    async def story() -> None:
        async with served(tmp_path) as server:
            async with Admin(server.config("alice", "alice secret")) as admin:
                upsertion = ScramUpsertion("alice", "SCRAM-SHA-256", "secret", iterations=4096)
                await admin.alter_user_scram_credentials([upsertion])
            for first in range(0, count, 20):
                await asyncio.gather(*(guess(server, first + n) for n in range(20)))
                (await server.connect("alice", "alice secret")).close()
            counts = server.counts
            failed = sum(n for (_, _, is_success), n in counts.items() if not is_success)
            assert failed == count
            await until(lambda: not server.broker.dispatcher.connections)
            await until(lambda: not server.broker.request_budget.held_bytes)

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(story())
