"""Requests that are large, and answers that are: in slices of the loop's time.

    frame --decode_slice, rest, decode_slice, rest ...--> message --handler--> answer --encode_slice, rest ...--> parts

Meanwhile the loop serves other connections. Those requests that come behind on the same connection are held, so that
what a client sends in order is served in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final

from kavka.broker.pace import Pace
from kavka.broker.request_memory import ANSWER_SETTING, DecodedBound, RequestTooLarge
from kavka.io import Sendable
from kavka.net.connection import Connection, ResponseSlot
from kavka.wire.apis import ApiKey
from kavka.wire.codec import SlicedDecoding
from kavka.wire.frame import RequestHeader

_STEPS_A_SLICE: Final = 8
"""Of a pace, for one step of the codec: about 0.2 ms."""
_TURN_FRAMES: Final = 16


Encoding = Generator[int, None, list[Sendable]]
"""What `wire.frame.encode_response_in_slices` gives."""


class LargeRequest:
    """A frame that is being decoded, and what its request has taken until it is answered."""

    __slots__ = (
        "_api",
        "_bound",
        "_decoding",
        "_frame_bytes",
        "holds_connection",
        "memory",
        "pace",
    )

    def __init__(
        self,
        api: str,
        message: type,
        header: RequestHeader,
        frame: memoryview,
        bound: DecodedBound,
        pace: Pace,
    ) -> None:
        """Begin to decode a `message` within a bound."""
        self._api = api
        self._decoding: SlicedDecoding | None = SlicedDecoding(
            message, header.api_version, frame, header.body_position
        )
        self._frame_bytes = len(frame)
        self._bound = bound
        self.pace = pace
        self.memory = 0
        """Bytes of `RequestMemory` that it has."""
        self.holds_connection = False

    @property
    def most_weight(self) -> int:
        """Bytes of memory that its objects may take."""
        return self._bound.most

    @property
    def weight(self) -> int:
        """Bytes of memory of the objects made so far; 0 after `take_message`."""
        return 0 if self._decoding is None else self._decoding.weight

    def decode_slice(self) -> bool:
        """Decode until the time is over; tell whether all is there. Raise CorruptFrame or RequestTooLarge."""
        decoding = self._decoding
        assert decoding is not None
        while not decoding.step():
            if decoding.weight > self._bound.most:
                raise RequestTooLarge(
                    f"a {self._api} of {self._frame_bytes} bytes takes more than "
                    f"{self._bound.most} bytes of memory when it is decoded: {self._bound.remedy}"
                )
            if self.pace.is_over(_STEPS_A_SLICE):
                return False
        return True

    def take_message(self) -> Any:
        """Return the message, once; it is not kept here."""
        decoding, self._decoding = self._decoding, None
        assert decoding is not None
        return decoding.message


def encode_slice(steps: Encoding, pace: Pace, api: ApiKey, most: int) -> list[Sendable] | None:
    """Encode until the time is over; return the parts, None if there is more. Raise RequestTooLarge, or as `steps`."""
    try:
        while True:
            length = next(steps)
            if length > most:
                raise RequestTooLarge(
                    f"the answer to a {api.name} is larger than {most} bytes: {ANSWER_SETTING}"
                )
            if pace.is_over(_STEPS_A_SLICE):
                return None
    except StopIteration as stop:
        parts: list[Sendable] = stop.value
        return parts


class HeldConnections:
    """Connections that have a large request in work, and the frames that wait behind it."""

    def __init__(self, receive: Callable[[Connection, ResponseSlot, memoryview], None]) -> None:
        """Give frames to `receive` when their connection is let go, in order; it may hold the connection again."""
        self._receive = receive
        self.frames: dict[Connection, deque[tuple[ResponseSlot, memoryview]]] = {}
        """What waits on each connection that is held, or is not served yet up to its last frame."""
        self._holding: set[Connection] = set()
        self._serving: Connection | None = None

    def hold(self, connection: Connection) -> None:
        """Keep what comes on a connection from now on."""
        self.frames.setdefault(connection, deque())
        self._holding.add(connection)

    def let_go(self, connection: Connection) -> None:
        """Serve what was kept, then what comes."""
        self._holding.discard(connection)
        if not connection.is_open:
            self.drop(connection)
        elif self._serving is not connection:
            self._serve(connection)

    def drop(self, connection: Connection) -> None:
        """Forget a connection that is gone."""
        self.frames.pop(connection, None)
        self._holding.discard(connection)

    def _serve(self, connection: Connection) -> None:
        """Serve some frames; the rest in the next turn of the loop, or when the connection is let go again."""
        before, self._serving = self._serving, connection
        try:
            for _ in range(_TURN_FRAMES):
                frames = self.frames.get(connection)
                if frames is None or connection in self._holding:
                    return
                if not frames:
                    del self.frames[connection]
                    return
                slot, frame = frames.popleft()
                self._receive(connection, slot, frame)
        finally:
            self._serving = before
        asyncio.get_running_loop().call_soon(self._serve_on, connection)

    def _serve_on(self, connection: Connection) -> None:
        if connection not in self._holding:
            self._serve(connection)
