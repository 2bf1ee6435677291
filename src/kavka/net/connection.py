"""The broker's side of one connection: frames in, answers out in the order of the frames.

Every frame gets a `Slot` when it is read. Answers may become ready in any order; a slot leaves when all before it have
left. Reading stops while too many requests are in work or too many answer bytes wait for a slow reader, so a connection
costs bounded memory whatever its client does. Frames that came in one packet are handled a few at a time, so that a
client which sends thousands at once keeps nobody else waiting.

    frames:   f1 f2 f3 f4          slots:  [ready][waits][ready][waits]
    on the wire: a1                          left  ^ a3 waits for a2
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from kavka.doors import Part, Transport
from kavka.net.frames import FrameReader, InvalidFrameSize
from kavka.net.inflow import Inflow
from kavka.values import frozen

log = logging.getLogger(__name__)

_TURN_FRAMES = 16  # what one connection may have handled before the loop serves the others


class Slot:
    """The place of one answer in its connection's order."""

    __slots__ = ("parts", "request_bytes")

    def __init__(self, request_bytes: int = 0) -> None:
        """Begin without an answer to a request of so many bytes."""
        self.parts: Sequence[Part] | None = None
        self.request_bytes = request_bytes


class FrameHandler(Protocol):
    """Who takes the frames of all connections."""

    def opened(self, connection: Connection) -> bool:
        """Take a new connection; false refuses it."""
        ...

    def received(self, connection: Connection, slot: Slot, frame: memoryview) -> None:
        """Take a frame. Sooner or later `connection.answer(slot, parts)` must follow, or the connection be closed."""
        ...

    def closed(self, connection: Connection) -> None:
        """Forget a connection that `opened` took."""
        ...


@frozen
class Limits:
    """Bounds of one connection."""

    frame_bytes: int
    """The largest request; a larger one closes the connection (`socket.request.max.bytes`)."""
    in_flight: int
    """Requests in work at one time; more are not read."""
    in_flight_bytes: int = 16 << 20
    """Bytes of requests in work at which no more are read; a request that alone is larger is still handled."""


class Connection:
    """Implements `doors.Wire` for an accepted connection. All calls come from the loop's thread."""

    def __init__(
        self,
        handler: FrameHandler,
        listener_name: str,
        limits: Limits,
        chunk: bytearray | None = None,
    ) -> None:
        """`listener_name` tells which listener accepted it; connections of one loop may share a receiving `chunk`."""
        self.listener_name = listener_name
        self.peer_host = ""
        self.last_active_ms = 0
        self.state: dict[str, Any] = {}
        """What handlers remember of this client, such as its software name."""
        self._handler = handler
        self._limits = limits
        self._inflow = Inflow()
        self._reader = FrameReader(self._inflow.frames.append, limits.frame_bytes, chunk)
        self._slots: deque[Slot] = deque()
        self._bytes_in_work = 0  # Invariant: the sum of request_bytes of all slots
        self._transport: Transport | None = None
        self._sent_bytes = 0  # when `silent_ms` last looked
        self._sent_at_end = 0
        self.bytes_received = 0
        self._taken = False
        self._corked = False
        self._writing_paused = False
        self._is_blocked = False

    # -- doors.Wire

    def connection_made(self, transport: Transport) -> None:
        """Introduce the connection to its handler, or close it when that refuses."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.peer_host = str(peer[0]) if peer else ""
        self._taken = self._handler.opened(self)
        if not self._taken:
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return memory for the next bytes."""
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the first frames that are complete now, and send their answers together."""
        self.bytes_received += nbytes
        try:
            self._reader.buffer_updated(nbytes)
        except InvalidFrameSize as error:
            self._handle_frames()
            log.warning("connection closed peer=%s reason=%s", self.peer_host, error)
            self.abort()
        else:
            self._handle_frames()

    def eof_received(self) -> bool:
        """Close: nobody waits for the answers any more."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop answers that wait, releasing the files they hold."""
        self._sent_at_end = self.bytes_sent
        self._transport = None
        self._inflow.drop()
        for slot in self._slots:
            _release(slot.parts)
        self._slots.clear()
        if self._taken:
            self._taken = False
            self._handler.closed(self)

    def pause_writing(self) -> None:
        """Stop reading requests: the client does not read its answers."""
        self._writing_paused = True
        self._pace()

    def resume_writing(self) -> None:
        """Read requests again."""
        self._writing_paused = False
        self._flush()

    # -- for the handler

    @property
    def is_open(self) -> bool:
        """Whether an answer could still be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def bytes_sent(self) -> int:
        """How many bytes of answers the socket has taken."""
        if self._transport is None:
            return self._sent_at_end
        sent: int = self._transport.get_extra_info("bytes_sent", 0)
        return sent

    @property
    def waiting_frames(self) -> int:
        """How many requests were received and not handled yet."""
        return len(self._inflow.frames)

    @property
    def requests_in_work(self) -> int:
        """How many requests have no answer on its way yet."""
        return len(self._slots)

    def silent_ms(self, now_ms: int) -> int:
        """Return for how long no request came and no byte of an answer went; to be asked from time to time."""
        sent = 0 if self._transport is None else self._transport.get_extra_info("bytes_sent", 0)
        if sent != self._sent_bytes:
            self._sent_bytes = sent
            self.last_active_ms = now_ms
        return now_ms - self.last_active_ms

    @property
    def is_idle(self) -> bool:
        """Whether no request is in work."""
        return not self._slots and not self._inflow.frames

    def answer(self, slot: Slot, parts: Sequence[Part]) -> None:
        """Give the answer of `slot`; empty parts mean that the request has none (acks=0)."""
        assert slot.parts is None
        if self._transport is None:
            _release(parts)
            return
        slot.parts = parts
        if not self._corked:
            self._flush()

    def hold(self) -> None:
        """Let answers wait for `let_go`, to leave together: both are called in one turn of the loop."""
        self._corked = True

    def let_go(self) -> None:
        """Send the answers that are ready."""
        self._corked = False
        self._flush()

    def block(self) -> None:
        """Handle no further frame until `unblock`: the handler is not done with its part that goes in order."""
        self._is_blocked = True

    def unblock(self) -> None:
        """Handle frames again, in the next turn of the loop."""
        self._is_blocked = False
        self._pace()

    def abort(self) -> None:
        """Close now, dropping what waits to be sent."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Send what is ready and in order, then close."""
        if self._transport is not None:
            self._transport.close()

    # -- inside

    def _handle_frames(self) -> None:
        """Take one turn: as many frames as there is room for, up to a number; their answers leave together."""
        self.hold()
        frames, slots, received = self._inflow.frames, self._slots, self._handler.received
        try:
            for _ in range(min(_TURN_FRAMES, len(frames))):
                if self._is_full or not self.is_open:
                    break
                frame = frames.popleft()
                size = len(frame)
                slot = Slot(size)
                slots.append(slot)
                self._bytes_in_work += size
                received(self, slot, frame)
        finally:
            self.let_go()

    @property
    def _is_full(self) -> bool:
        return (
            self._is_blocked
            or self._writing_paused
            or len(self._slots) >= self._limits.in_flight
            or self._bytes_in_work >= self._limits.in_flight_bytes
        )

    def _flush(self) -> None:
        """Send every answer at the head of the order."""
        transport, slots = self._transport, self._slots
        if transport is None:
            return
        parts: list[Part] = []
        while slots and slots[0].parts is not None and not self._writing_paused:
            slot = slots.popleft()
            self._bytes_in_work -= slot.request_bytes
            parts.extend(slot.parts or ())
        if parts:
            transport.writelines(parts)
        self._pace()

    def _pace(self) -> None:
        """Handle and read more while there is room for more requests."""
        self._inflow.pace(self._transport, self._handle_frames, is_full=self._is_full)


def _release(parts: Sequence[Part] | None) -> None:
    for part in parts or ():
        if not isinstance(part, bytes | bytearray | memoryview):
            part.release()
