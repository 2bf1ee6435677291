"""The budget of all requests stops reading before memory is gone, and never permanently."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kavka.net.connection import Connection, Limits, ResponseSlot
from kavka.net.frames import InvalidFrameSize
from kavka.net.request_budget import BudgetLimits, RequestBudget

LARGE = 100_000
STALL_MS = 10_000


class Handler:
    """Keeps what comes, until the test answers."""

    def __init__(self) -> None:
        self.frames: list[tuple[Connection, ResponseSlot, int]] = []

    def slice_ended(self, connection: Connection) -> None:
        pass

    def refused(self, connection: Connection, error: InvalidFrameSize) -> None:
        pass

    def opened(self, connection: Connection) -> bool:
        return True

    def received(self, connection: Connection, slot: ResponseSlot, frame: memoryview) -> None:
        self.frames.append((connection, slot, len(frame)))

    def closed(self, connection: Connection) -> None:
        pass

    def answer(self, number: int = 0, size: int = 1) -> None:
        connection, slot, _size = self.frames.pop(number)
        connection.respond(slot, [bytes(size)])


class Socket:
    """A client's side and the transport between: it gives what the connection is willing to read."""

    def __init__(self, world: World, in_flight: int) -> None:
        self.pending = bytearray()
        self.is_reading = True
        self.is_closed = False
        self.is_reading_responses = True
        self.unread_bytes = self.sent_bytes = 0
        self.world = world
        handler, budget = world.handler, world.budget
        self.connection = Connection(
            handler, "PLAINTEXT", Limits(1 << 30, in_flight), budget=budget
        )
        self.connection.connection_made(self)  # type: ignore[arg-type]

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("10.0.0.1", 1234), "bytes_sent": self.sent_bytes}.get(name, default)

    def writelines(self, parts: Any) -> None:
        if not self.is_reading_responses:
            self.unread_bytes += sum(map(len, parts))

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def call_when_sent(
        self, callback: Callable[[], None], before: Callable[[], None] | None = None
    ) -> None:
        self.report_sent = callback

    def read_responses(self, size: int) -> None:
        """Let the client read some of its responses."""
        self.unread_bytes -= size
        self.sent_bytes += size
        self.report_sent()

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def is_closing(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.connection.connection_lost(None)

    def send(self, data: bytes) -> Socket:
        self.pending += data
        return self.read()

    def read(self) -> Socket:
        """Let the connection read until it stops."""
        while self.pending and self.is_reading and not self.is_closed:
            buffer = self.connection.get_buffer(-1)
            if not buffer:
                assert not self.is_reading
                break
            count = min(len(buffer), len(self.pending), 65536)
            buffer[:count] = self.pending[:count]
            del self.pending[:count]
            self.connection.buffer_updated(count)
            self.world.most_held = max(self.world.most_held, self.world.budget.held_bytes)
        return self


def frame(size: int) -> bytes:
    return size.to_bytes(4) + bytes(size)


def half(size: int, came: int) -> bytes:
    return size.to_bytes(4) + bytes(came)


class World:
    """A handler, a budget and some connections; virtual time."""

    def __init__(self, limit: int, max_queued: int, largest: int, medium: int) -> None:
        self.handler = Handler()
        most = limit + largest + 65536
        self.budget = RequestBudget(BudgetLimits(limit, most, max_queued, STALL_MS, medium))
        self.most_held = 0
        self.sockets: list[Socket] = []

    def connect(self, in_flight: int = 100) -> Socket:
        self.sockets.append(Socket(self, in_flight))
        return self.sockets[-1]

    def read_all(self) -> None:
        before = None
        while before != (now := [len(socket.pending) for socket in self.sockets]):
            before = now
            for socket in self.sockets:
                socket.read()


class Loop(asyncio.SelectorEventLoop):
    """A loop whose time passes when the test says so."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


async def all_turns(world: World) -> None:
    while world.budget.queued:  # noqa: ASYNC110
        await asyncio.sleep(0)


Story = Callable[[World], Coroutine[Any, Any, None]]


async def later(world: World, ms: int, dripping: Socket | None = None) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    for _ in range(20):
        if dripping is not None:
            dripping.send(bytes(4_000))
        world.read_all()
        loop.ahead_s += ms / 20 / 1000
        for _ in range(3):
            await asyncio.sleep(0)
    world.read_all()


def run(
    story: Story,
    *,
    limit: int = LARGE,
    max_queued: int = 500,
    largest: int = LARGE,
    medium: int = 0,
) -> None:
    async def main() -> None:
        world = World(limit, max_queued, largest, medium)
        await story(world)
        beginnings = (36 << 10) * len(world.sockets)
        assert world.most_held <= world.budget.limits.max_bytes + limit // 8 + beginnings
        for socket in world.sockets:
            socket.abort()
        assert (world.budget.held_bytes, world.budget.queued) == (0, 0)
        assert not world.budget.is_tight

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())


def test_half_received_requests_count_by_the_bytes_that_came() -> None:
    async def story(world: World) -> None:
        world.connect().send(half(LARGE, 40_000))
        world.connect().send(half(10 * LARGE, 50_000))
        assert world.budget.held_bytes == 90_000
        assert not world.budget.is_tight

    run(story)


def test_a_request_counts_until_it_is_answered() -> None:
    async def story(world: World) -> None:
        world.connect().send(frame(60_000))
        assert world.budget.held_bytes == 60_000
        world.handler.answer()
        assert world.budget.held_bytes == 0

    run(story)


def test_reading_stops_over_the_limit_and_goes_on_below_it() -> None:
    async def story(world: World) -> None:
        for _ in range(4):
            world.connect().send(frame(70_000))
        world.read_all()
        assert [size for _, _, size in world.handler.frames] == [70_000, 70_000]
        assert [socket.is_reading for socket in world.sockets] == [True, True, False, False]
        assert world.budget.waiting == 2
        for left in (2, 2, 1):
            world.handler.answer()
            world.read_all()
            assert len(world.handler.frames) == left
        assert world.budget.waiting == 0

    run(story)


def test_half_received_requests_are_finished_in_order_and_none_waits_without_end() -> None:
    async def story(world: World) -> None:
        sockets = [world.connect().send(half(LARGE, 30_000)) for _ in range(4)]
        for socket in reversed(sockets):
            socket.send(bytes(70_000))
        answered: list[Any] = []
        while len(answered) < 4:
            world.read_all()
            answered.append(world.handler.frames[0][0])
            world.handler.answer()
        assert answered == [socket.connection for socket in reversed(sockets)]

    run(story)


def test_small_requests_pass_while_large_ones_wait() -> None:
    async def story(world: World) -> None:
        world.connect().send(half(LARGE, LARGE - 1))
        for _ in range(2):
            world.connect().send(half(LARGE, 40_000))
        waiting = world.connect().send(half(LARGE, 50_000))
        small = world.connect().send(frame(30_000))
        assert not waiting.is_reading
        assert [size for _, _, size in world.handler.frames] == [30_000]
        small.send(frame(10))
        assert len(world.handler.frames) == 1  # one at a time
        world.handler.answer()
        small.read()
        assert [size for _, _, size in world.handler.frames] == [10]

    run(story)


def test_a_small_request_in_pieces_passes_too() -> None:
    async def story(world: World) -> None:
        world.connect().send(frame(LARGE))
        small = world.connect()
        for byte in frame(20):
            small.send(bytes([byte]))
        assert [size for _, _, size in world.handler.frames] == [LARGE, 20]

    run(story)


def test_a_tight_budget_reads_a_little_of_each_connection_only() -> None:
    async def story(world: World) -> None:
        world.connect().send(frame(LARGE))
        for _ in range(10):
            world.connect().send(frame(LARGE))
        assert world.budget.waiting == 10
        assert world.budget.held_bytes <= LARGE + 10 * (36 << 10)

    run(story)


def test_a_waiting_request_is_not_overtaken_by_later_ones_that_would_fit() -> None:
    async def story(world: World) -> None:
        world.connect().send(frame(LARGE))
        large = world.connect().send(frame(LARGE))
        later = world.connect().send(frame(39_000))
        assert (bool(large.pending), bool(later.pending)) == (True, True)
        world.handler.answer()
        world.read_all()
        assert [size for _, _, size in world.handler.frames] == [LARGE]
        world.handler.answer()
        world.read_all()
        assert [size for _, _, size in world.handler.frames] == [39_000]

    run(story)


def test_what_waits_without_its_frame_counts_no_longer() -> None:
    async def story(world: World) -> None:
        socket = world.connect().send(frame(LARGE))
        connection, slot, _size = world.handler.frames[0]
        connection.release(slot)
        await asyncio.sleep(0)
        assert (world.budget.held_bytes, world.budget.is_tight) == (0, False)
        socket.send(frame(10))
        assert len(world.handler.frames) == 2

    run(story)


def test_a_request_in_work_counts_when_its_connection_is_gone() -> None:
    async def story(world: World) -> None:
        world.connect().send(frame(60_000) + frame(70_000))
        (connection, slot, _), (_, other, _) = world.handler.frames
        slot.outlives_connection = True
        world.sockets[0].abort()
        assert world.budget.held_bytes == 60_000
        connection.release(slot)
        connection.respond(slot, [b"A"])
        connection.release(other)
        assert world.budget.held_bytes == 0

    run(story)


def test_a_response_counts_while_it_waits_for_an_earlier_one() -> None:
    async def story(world: World) -> None:
        world.connect().send(frame(10) + frame(10))
        (connection, first, _), (_, second, _) = world.handler.frames
        connection.respond(second, [b"x" * 50_000, b"y" * 10_000])
        connection.release(first)
        assert world.budget.held_bytes == 60_000
        connection.respond(first, [b"A"])
        assert world.budget.held_bytes == 0

    run(story)


def test_frames_that_wait_for_their_turn_count() -> None:
    async def story(world: World) -> None:
        world.connect().send(frame(1000) * 40)
        assert world.budget.queued == 1
        assert world.budget.held_bytes >= 40_000
        await all_turns(world)
        assert world.budget.held_bytes == 40_000
        while world.handler.frames:
            world.handler.answer()
        assert world.budget.held_bytes == 0

    run(story)


def test_a_full_queue_stops_all_reading_until_turns_are_taken() -> None:
    async def story(world: World) -> None:
        for _ in range(2):
            world.connect().send(frame(1) * 40)
        assert world.budget.queued == 2
        third = world.connect().send(frame(1))
        assert not third.is_reading
        before = len(world.handler.frames)
        await all_turns(world)
        assert third.is_reading
        third.read()
        assert len(world.handler.frames) == 81 > before

    run(story, limit=1 << 40, max_queued=2)


def test_frames_that_wait_for_earlier_responses_are_not_queued() -> None:
    async def story(world: World) -> None:
        world.connect(in_flight=2).send(frame(1) * 40)
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(world.handler.frames) == 2
        assert (world.budget.queued, world.budget.is_tight) == (0, False)

    run(story, limit=1 << 40, max_queued=1)


def test_stalled_requests_lose_their_memory_while_others_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        attackers = [world.connect().send(half(LARGE, 40_000)) for _ in range(20)]
        honest = world.connect().send(frame(LARGE))
        world.read_all()
        assert honest.pending
        for _ in range(6):
            await later(world, STALL_MS)
        assert not honest.pending
        assert sum(attacker.is_closed for attacker in attackers) >= 18
        assert not honest.is_closed

    with caplog.at_level(logging.WARNING):
        run(story)
    closed = [line for line in caplog.messages if line.startswith("connection closed")]
    assert len(closed) >= 18
    assert "makes no progress, and others need its memory" in closed[0]


def test_a_request_that_drips_is_closed_after_twelve_rounds() -> None:
    async def story(world: World) -> None:
        attacker = world.connect().send(half(99 << 20, LARGE))
        attacker.send(bytes(70_000))
        rounds = 0
        while not attacker.is_closed and rounds < 50:
            rounds += 1
            for _ in range(2):
                world.connect().send(frame(LARGE))
            await later(world, STALL_MS, attacker)
        assert attacker.is_closed
        assert rounds >= 12

    run(story, largest=99 << 20)


def test_a_slow_request_is_closed_only_while_others_wait() -> None:
    async def story(world: World) -> None:
        slow = world.connect().send(half(99 << 20, LARGE))
        for _ in range(30):
            await later(world, STALL_MS)
        assert not slow.is_closed

    run(story, largest=99 << 20)


def test_a_request_that_progresses_is_not_closed() -> None:
    async def story(world: World) -> None:
        world.connect().send(frame(LARGE))
        slow = world.connect().send(half(10 * LARGE, 50_000))
        world.connect().send(frame(LARGE))
        for _ in range(10):
            await later(world, STALL_MS)
            slow.send(bytes(70_000))
        assert not slow.is_closed

    run(story, largest=99 << 20)


def test_a_connection_that_closes_lets_others_be_read() -> None:
    async def story(world: World) -> None:
        first = world.connect().send(half(LARGE, 90_000))
        second = world.connect().send(half(LARGE, 80_000))
        third = world.connect().send(frame(LARGE))
        world.read_all()
        assert third.pending
        for socket in (second, first):
            socket.abort()
        world.read_all()
        assert [size for _, _, size in world.handler.frames] == [LARGE]

    run(story)


def test_a_silent_admitted_request_makes_way_for_the_next() -> None:
    async def story(world: World) -> None:
        silent = [world.connect().send(half(LARGE, size)) for size in (70_000, 40_000)]
        silent[1].send(bytes(1))
        honest = world.connect().send(frame(LARGE))
        world.read_all()
        assert honest.pending
        await later(world, STALL_MS // 2)
        world.read_all()
        assert not honest.pending
        assert not any(socket.is_closed for socket in silent)

    run(story)


def test_requests_that_come_byte_by_byte_lose_their_memory_too() -> None:
    async def story(world: World) -> None:
        attackers = [world.connect().send(half(LARGE, 60_000)) for _ in range(5)]
        for _ in range(16):
            for attacker in attackers:
                attacker.send(bytes(1))
            await later(world, STALL_MS)
        assert sum(attacker.is_closed for attacker in attackers) >= 4
        world.connect().send(frame(LARGE))
        assert [size for _, _, size in world.handler.frames] == [LARGE]

    run(story)


def test_medium_requests_do_not_queue_behind_large_ones() -> None:
    async def story(world: World) -> None:
        for _ in range(20):
            world.connect().send(half(LARGE, 60_000))
        for _ in range(3):
            world.connect().send(frame(45_000))
            world.read_all()
            assert [size for _, _, size in world.handler.frames] == [45_000]
            world.handler.answer()

    run(story, medium=50_000)


def test_responses_count_until_their_client_has_read_them() -> None:
    async def story(world: World) -> None:
        slow = world.connect()
        slow.is_reading_responses = False
        slow.send(frame(1_000))
        world.handler.answer(size=30_000)
        assert (world.budget.held_bytes, slow.connection.bytes_in_work) == (30_000, 30_000)
        slow.read_responses(20_000)
        assert world.budget.held_bytes == 10_000
        slow.read_responses(10_000)
        assert world.budget.held_bytes == 0

    run(story)


def test_responses_that_wait_for_a_slow_client_count() -> None:
    """The transport takes no more of them, so they wait in their slots."""

    async def story(world: World) -> None:
        slow = world.connect()
        slow.send(frame(1_000)).send(frame(1_000))
        slow.connection.pause_writing()
        world.handler.answer(size=30_000)
        assert world.budget.held_bytes == 31_000
        slow.connection.resume_writing()
        assert world.budget.held_bytes == 1_000

    run(story)


def test_reading_stops_while_unread_responses_hold_the_memory() -> None:
    async def story(world: World) -> None:
        slow, other = world.connect(), world.connect()
        slow.is_reading_responses = False
        slow.send(frame(1_000))
        world.handler.answer(size=LARGE)
        assert world.budget.is_tight
        other.send(frame(50_000))
        assert not world.handler.frames
        slow.read_responses(LARGE)
        world.read_all()
        assert len(world.handler.frames) == 1

    run(story)


def test_clients_that_do_not_read_are_closed_while_others_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        unread, slow, other = (world.connect() for _ in range(3))
        for each in (unread, slow):
            each.is_reading_responses = False
            each.send(frame(1_000))
        world.handler.answer(size=LARGE)
        world.handler.answer(size=LARGE)
        other.send(frame(50_000))
        await later(world, STALL_MS)
        slow.read_responses(70_000)
        await later(world, STALL_MS)
        assert (unread.is_closed, slow.is_closed) == (True, False)
        slow.read_responses(30_000)
        world.read_all()
        assert len(world.handler.frames) == 1

    run(story)
    assert "the client does not read its responses" in caplog.text
