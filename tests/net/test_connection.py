"""Answers leave in the order of the requests; one connection costs bounded memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kavka.net.connection import Connection, Limits, ResponseSlot
from kavka.net.frames import InvalidFrameSize


class Handler:
    """Keeps what comes, until the test answers."""

    def __init__(self, *, accepts: bool = True) -> None:
        self.accepts = accepts
        self.frames: list[tuple[ResponseSlot, bytes]] = []
        self.closed_count = 0
        self.slices: list[tuple[int, bytes]] = []
        self.transport: Transport | None = None

    def slice_ended(self, connection: Connection) -> None:
        if self.transport is not None:
            self.slices.append((len(self.frames), self.transport.sent))

    def refused(self, connection: Connection, error: InvalidFrameSize) -> None:
        pass

    def opened(self, connection: Connection) -> bool:
        return self.accepts

    def received(self, connection: Connection, slot: ResponseSlot, frame: memoryview) -> None:
        self.frames.append((slot, bytes(frame)))

    def closed(self, connection: Connection) -> None:
        self.closed_count += 1


class Transport:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.sent = b""
        self.calls: list[str] = []
        self.closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("10.0.0.1", 1234), "bytes_sent": len(self.sent)}.get(name, default)

    def writelines(self, parts: Sequence[bytes]) -> None:
        self.sent += b"".join(parts)

    def get_write_buffer_size(self) -> int:
        return 0

    def call_when_sent(
        self, callback: Callable[[], None], before: Callable[[], None] | None = None
    ) -> None: ...

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True
        self.calls.append("abort")


def opened(
    in_flight: int = 1000, frame_bytes: int = 1000, handler: Handler | None = None
) -> tuple[Connection, Handler, Transport]:
    handler, transport = handler or Handler(), Transport()
    connection = Connection(handler, "PLAINTEXT", Limits(frame_bytes, in_flight))
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, handler, transport


def feed(connection: Connection, data: bytes) -> None:
    while data:
        buffer = connection.get_buffer(-1)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        connection.buffer_updated(count)


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


@given(st.permutations(range(8)), st.integers(1, 40))
def test_responses_leave_in_the_order_of_the_requests(order: list[int], cut: int) -> None:
    connection, handler, transport = opened()
    stream = b"".join(frame(b"request %d" % number) for number in range(8))
    for start in range(0, len(stream), cut):
        feed(connection, stream[start : start + cut])
    assert [body for _slot, body in handler.frames] == [b"request %d" % n for n in range(8)]
    for number in order:
        connection.respond(handler.frames[number][0], [b"%d" % number])
    assert transport.sent == b"01234567"
    assert connection.is_idle


def test_a_time_slice_ends_before_its_responses_leave() -> None:
    connection, handler, transport = opened()
    handler.transport = transport
    feed(connection, frame(b"one") + frame(b"two") + b"\0")
    assert handler.slices == [(2, b"")]
    for slot, _ in handler.frames:
        connection.respond(slot, [b"."])
    feed(connection, b"\0")
    assert handler.slices == [(2, b"")], "a slice without a frame is none"


def test_a_request_without_response_delays_no_other() -> None:
    connection, handler, transport = opened()
    feed(connection, frame(b"a") + frame(b"b"))
    connection.respond(handler.frames[1][0], [b"B"])
    connection.respond(handler.frames[0][0], ())
    assert transport.sent == b"B"


def test_reading_stops_while_too_many_requests_are_in_work() -> None:
    connection, handler, transport = opened(in_flight=2)
    feed(connection, frame(b"a") + frame(b"b"))
    assert transport.calls == ["pause"]
    connection.respond(handler.frames[0][0], [b"A"])
    assert transport.calls == ["pause", "resume"]


def test_frames_of_one_packet_are_not_handled_beyond_the_room() -> None:
    async def story() -> None:
        connection, handler, transport = opened(in_flight=2)
        feed(connection, b"".join(frame(b"%d" % number) for number in range(5)))
        assert len(handler.frames) == 2
        connection.respond(handler.frames[0][0], [b"A"])
        await asyncio.sleep(0)
        assert [body for _slot, body in handler.frames] == [b"0", b"1", b"2"]
        assert transport.calls == ["pause"]

    asyncio.run(story())


def test_a_packet_of_many_frames_lets_others_have_their_turns() -> None:
    async def story() -> None:
        connection, handler, transport = opened(in_flight=2000)
        feed(connection, frame(b"") * 1000)
        assert 0 < len(handler.frames) < 100
        assert transport.calls == ["pause"]
        slices = 0
        while len(handler.frames) < 1000:
            await asyncio.sleep(0)
            slices += 1
        assert slices >= 10
        assert transport.calls == ["pause", "resume"]

    asyncio.run(story())


def test_a_packet_of_slow_frames_lets_others_have_their_turns_sooner() -> None:
    async def story() -> None:
        class Slow(Handler):
            def received(
                self, connection: Connection, slot: ResponseSlot, frame: memoryview
            ) -> None:
                connection.last_active_ms = 10 * len(self.frames)
                super().received(connection, slot, frame)

        connection, handler, _transport = opened(handler=Slow())
        feed(connection, frame(b"") * 5)
        assert len(handler.frames) == 2
        await asyncio.sleep(0)
        assert len(handler.frames) == 4
        await asyncio.sleep(0)
        assert len(handler.frames) == 5

    asyncio.run(story())


def test_a_blocked_connection_is_not_read_and_its_frames_wait() -> None:
    async def story() -> None:
        class Blocking(Handler):
            def received(
                self, connection: Connection, slot: ResponseSlot, frame: memoryview
            ) -> None:
                super().received(connection, slot, frame)
                if frame == b"large":  # type: ignore[comparison-overlap]
                    connection.block()
                    connection.block()

        connection, handler, transport = opened(handler=Blocking())
        feed(connection, frame(b"large") + frame(b"next") + frame(b"large") + frame(b"last"))
        assert transport.calls == ["pause"]
        connection.unblock()
        await asyncio.sleep(0)
        assert connection.is_blocked
        assert [body for _slot, body in handler.frames] == [b"large"]
        connection.unblock()
        await asyncio.sleep(0)
        assert [body for _slot, body in handler.frames] == [b"large", b"next", b"large"]
        connection.unblock()
        connection.unblock()
        await asyncio.sleep(0)
        assert [body for _slot, body in handler.frames] == [b"large", b"next", b"large", b"last"]
        assert transport.calls == ["pause", "resume"]

    asyncio.run(story())


def test_a_lost_connection_may_be_unblocked() -> None:
    async def story() -> None:
        connection, handler, _transport = opened()
        connection.block()
        feed(connection, frame(b"a"))
        connection.connection_lost(None)
        connection.unblock()
        await asyncio.sleep(0)
        assert not handler.frames
        assert connection.bytes_in_work == 0

    asyncio.run(story())


def test_frames_that_wait_for_their_turn_go_with_their_connection() -> None:
    async def story() -> None:
        connection, handler, transport = opened(in_flight=2)
        feed(connection, frame(b"") * 5)
        connection.connection_lost(None)
        connection.respond(handler.frames[0][0], [b"A"])
        await asyncio.sleep(0)
        assert (len(handler.frames), transport.sent) == (2, b"")

    asyncio.run(story())


def test_reading_stops_while_too_many_bytes_are_in_work() -> None:
    handler, transport = Handler(), Transport()
    connection = Connection(handler, "PLAINTEXT", Limits(1000, 1000, max_in_flight_bytes=500))
    connection.connection_made(transport)  # type: ignore[arg-type]

    async def story() -> None:
        feed(connection, frame(b"x" * 600) + frame(b"y"))
        for _ in range(3):
            await asyncio.sleep(0)
        assert [len(body) for _slot, body in handler.frames] == [600]
        connection.respond(handler.frames[0][0], [b"A"])
        for _ in range(3):
            await asyncio.sleep(0)
        assert [len(body) for _slot, body in handler.frames] == [600, 1]

    asyncio.run(story())


def test_reading_stops_while_the_client_does_not_read() -> None:
    connection, handler, transport = opened()
    feed(connection, frame(b"a"))
    connection.pause_writing()
    assert transport.calls == ["pause"]
    connection.respond(handler.frames[0][0], [b"A"])
    assert transport.sent == b""
    connection.resume_writing()
    assert (transport.sent, transport.calls) == (b"A", ["pause", "resume"])


def test_a_connection_is_silent_while_nothing_comes_and_nothing_goes() -> None:
    connection, handler, _transport = opened()
    feed(connection, frame(b"a"))
    connection.last_active_ms = 1000
    assert connection.idle_ms(3000) == 2000
    connection.respond(handler.frames[0][0], [b"A"])
    assert connection.idle_ms(4000) == 0
    assert connection.idle_ms(9000) == 5000


def test_a_frame_above_the_limit_closes_the_connection() -> None:
    connection, handler, transport = opened(frame_bytes=10)
    feed(connection, frame(b"fine") + frame(b"x" * 11))
    assert transport.calls == ["abort"]
    assert [body for _slot, body in handler.frames] == [b"fine"]


def test_a_negative_size_closes_the_connection() -> None:
    connection, _handler, transport = opened()
    feed(connection, b"\xff\xff\xff\xff")
    assert transport.calls == ["abort"]


def test_a_refused_connection_is_never_closed_twice() -> None:
    handler, transport = Handler(accepts=False), Transport()
    connection = Connection(handler, "PLAINTEXT", Limits(10, 10))
    connection.connection_made(transport)  # type: ignore[arg-type]
    connection.connection_lost(None)
    assert (transport.calls, handler.closed_count) == (["abort"], 0)


def test_responses_to_a_lost_connection_are_released() -> None:
    class Range:
        released = 0

        def release(self) -> None:
            self.released += 1

    connection, handler, _transport = opened()
    feed(connection, frame(b"a") + frame(b"b"))
    early, late = Range(), Range()
    connection.respond(handler.frames[1][0], [early])  # type: ignore[list-item]
    connection.connection_lost(None)
    connection.respond(handler.frames[0][0], [late])  # type: ignore[list-item]
    assert (early.released, late.released, handler.closed_count) == (1, 1, 1)
