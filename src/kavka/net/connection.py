"""The broker's side of a connection: frames are received, responses are sent in the order of the frames.

Every frame gets a `ResponseSlot` when it is read. Responses may become ready in any order; a slot is sent when all
before it are sent. Reading stops while too many requests are in work or too many response bytes wait for a slow
reader, so a connection costs bounded memory with any client; the bound of all connections is in `request_budget`.
Frames that came in one packet are handled a few at a time, or fewer when they take long, so that a client which sends
thousands at once does not delay the others. While a connection is blocked, its frames wait and it is not read: requests
are handled in order, though one may take many iterations of the loop.

    frames:   f1 f2 f3 f4          slots:  [ready][waits][ready][waits]
    on the wire: a1                          left  ^ a3 waits for a2
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kavka.io import Sendable, Transport
from kavka.net.flow_control import ReadFlowControl
from kavka.net.frames import FrameReader, InvalidFrameSize
from kavka.net.request_budget import SMALL_READ_BYTES, BudgetLimits, RequestBudget
from kavka.net.transport import host_of
from kavka.values import frozen

if TYPE_CHECKING:
    from kavka.net.frame_share import FrameShare
    from kavka.net.work_meter import WorkMeter

log = logging.getLogger(__name__)

_SLICE_FRAMES = 16  # what one connection may have handled before the loop serves the others
_SLICE_BYTES = 1 << 20  # of responses, after which a time slice ends
_SLICE_MS = 2  # a frame that begins so much after the first one is the last of its time slice
_FRAME_COST = 256  # what a small frame that waits takes beyond its bytes
_NO_LIMIT = 1 << 62
_NOTHING = memoryview(b"")


class ResponseSlot:
    """The place of one response in its connection's order."""

    __slots__ = ("held_bytes", "outlives_connection", "parts")

    def __init__(self, request_bytes: int = 0) -> None:
        """Begin without a response to a request of so many bytes."""
        self.parts: Sequence[Sendable] | None = None
        self.held_bytes = request_bytes
        """Bytes in memory: the request, then the response while it waits for earlier ones."""
        self.outlives_connection = False
        """True if the request stays in work, with its bytes, after its connection is gone: until `release`."""


class FrameHandler(Protocol):
    """The handler of the frames of all connections."""

    def opened(self, connection: Connection) -> bool:
        """Take a new connection; false refuses it."""
        ...

    def received(self, connection: Connection, slot: ResponseSlot, frame: memoryview) -> None:
        """Take a frame. Sooner or later `connection.respond(slot, parts)` must follow, or the connection be closed."""
        ...

    def slice_ended(self, connection: Connection) -> None:
        """Note the end of a connection's time slice, after one or more frames and before their responses leave."""
        ...

    def refused(self, connection: Connection, error: InvalidFrameSize) -> None:
        """Report a frame that is not read; the connection is closed afterwards."""
        ...

    def closed(self, connection: Connection) -> None:
        """Forget a connection that `opened` took."""
        ...


@frozen
class Limits:
    """Bounds of one connection."""

    max_frame_bytes: int
    """The largest request; a larger one closes the connection (`socket.request.max.bytes`)."""
    max_in_flight: int
    """Requests in work at one time; more are not read."""
    max_in_flight_bytes: int = 16 << 20
    """Bytes of requests in work at which no more are read; a request that alone is larger is still handled."""


class Connection:
    """Implements `io.BufferedProtocol` for an accepted connection. All calls come from the loop's thread."""

    def __init__(
        self,
        handler: FrameHandler,
        listener_name: str,
        limits: Limits,
        chunk: bytearray | None = None,
        budget: RequestBudget | None = None,
        *,
        is_admitted: bool = False,
    ) -> None:
        """Serve a connection of the listener `listener_name`; those of one loop may share a receiving `chunk`.

        All connections of a broker share its `budget`; without one, a connection has a budget without bounds.
        """
        self.listener_name = listener_name
        self.attachment: Any = None
        """State of the handler for the connection."""
        self.peer_host = ""
        """The client's address; that of an IPv4 client without the prefix which it has at an IPv6 listener."""
        self.meter: WorkMeter | None = None
        """Counts the time that this connection takes; None while it is not limited."""
        self.is_admitted = is_admitted
        """True if limits have counted it already, before its TLS handshake."""
        self.last_active_ms = 0
        """Time of the last frame: the handler sets it at the beginning of `received`."""
        self._handler = handler
        self._max_frame_bytes = limits.max_frame_bytes
        self._max_in_flight = limits.max_in_flight
        self._max_in_flight_bytes = limits.max_in_flight_bytes
        self._flow_control = ReadFlowControl()
        self._reader = FrameReader(self._flow_control.frames.append, limits.max_frame_bytes, chunk)
        self._budget = budget or RequestBudget(BudgetLimits(_NO_LIMIT, _NO_LIMIT, _NO_LIMIT))
        self._share: FrameShare | None = None
        self._slots: deque[ResponseSlot] = deque()
        self._bytes_in_flight = 0  # Invariant: the sum of held_bytes of all slots
        self._bytes_waiting = 0  # of frames that are left after a time slice
        self._bytes_unsent = 0  # of responses that left, and that the socket has not taken
        self._bytes_held = 0  # as the budget knows it
        self._is_scheduled = False  # as the budget knows it
        self._is_held_back = False
        self._transport: Transport | None = None
        self._sent_bytes = 0  # when `idle_ms` last looked
        self._sent_at_end = 0
        self.bytes_received = 0
        self._total_received = False
        self._is_held_open = False
        self._corked = False
        self._slice_bytes = 0  # of responses that leave at the end of the time slice
        self._writing_paused = False
        self._blocks = 0  # Invariant: calls of `block` that no `unblock` has followed

    # -- io.BufferedProtocol

    def connection_made(self, transport: Transport) -> None:
        """Introduce the connection to its handler, or close it when that refuses."""
        self._transport = transport
        transport.call_when_sent(self._sent, self._sending)
        self.peer_host = host_of(transport.get_extra_info("peername"))
        self._total_received = self._handler.opened(self)
        if not (self._total_received or self._is_held_open):
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return memory for the next bytes; none when reading has been paused, because the budget is spent."""
        if self.meter is not None:
            self.meter.begin()
        budget = self._budget
        if not budget.is_tight:
            return self._reader.get_buffer(sizehint)
        if budget.may_read(self):
            return self._reader.get_buffer(SMALL_READ_BYTES)
        self._is_held_back = True
        self._update_flow_control()
        return _NOTHING

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the first frames that are complete now, and send their responses together."""
        self.bytes_received += nbytes
        meter = self.meter
        if meter is not None:
            meter.enter()
        try:
            self._reader.buffer_updated(nbytes)
        except InvalidFrameSize as error:
            self._handle_frames()
            self._handler.refused(self, error)
            self.abort()
        else:
            self._handle_frames()
        if meter is not None:
            meter.leave()

    def eof_received(self) -> bool:
        """Close without sending the waiting responses: the client has closed its side."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop responses that wait, releasing the files they hold."""
        self._sent_at_end = self.bytes_sent
        self._transport = None
        self._flow_control.drop()
        self._reader.drop()
        self._bytes_in_flight = self._bytes_unsent = 0
        for slot in self._slots:
            _release(slot.parts)
            if slot.outlives_connection:
                self._bytes_in_flight += slot.held_bytes
            else:
                slot.held_bytes = 0
        self._slots.clear()
        if self._is_scheduled:
            self._is_scheduled = False
            self._budget.queue(-1)
        self._bytes_held = self._bytes_in_flight
        self._bytes_waiting = 0
        self._budget.leave(self)
        if self._share is not None:
            self._share.leave(self)
        if self._total_received:
            self._total_received = False
            self._handler.closed(self)

    def pause_writing(self) -> None:
        """Stop reading requests: the client does not read its responses."""
        self._writing_paused = True
        self._update_flow_control()

    def resume_writing(self) -> None:
        """Read requests again."""
        self._writing_paused = False
        self._flush()

    # -- for the handler

    def limit_frames(self, max_bytes: int | None, share: FrameShare | None = None) -> None:
        """Refuse frames that begin later and are larger than this, or with None than the connection's own limit.

        Meanwhile their memory counts in `share`.
        """
        own = self._max_frame_bytes
        self._reader.max_bytes = own if max_bytes is None else min(own, max_bytes)
        if self._share is not None:
            self._share.leave(self)
        self._share = share

    @property
    def is_open(self) -> bool:
        """Return whether a response could still be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def peer_certificate(self) -> bytes | None:
        """Return the client's certificate in DER, which the handshake has verified; None without one."""
        secured = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        found: bytes | None = None if secured is None else secured.getpeercert(binary_form=True)
        return found

    @property
    def bytes_sent(self) -> int:
        """Return the number of bytes that the socket has taken."""
        if self._transport is None:
            return self._sent_at_end
        sent: int = self._transport.get_extra_info("bytes_sent", 0)
        return sent

    @property
    def waiting_frames(self) -> int:
        """Return the number of requests received and not handled yet."""
        return len(self._flow_control.frames)

    @property
    def requests_in_flight(self) -> int:
        """Return the number of requests without a response yet."""
        return len(self._slots)

    @property
    def partial_bytes(self) -> int:
        """Return the received bytes of an incomplete request."""
        return self._reader.partial_bytes

    @property
    def frame_bytes(self) -> int:
        """Return the memory of an incomplete request."""
        return self._reader.memory_bytes

    @property
    def missing_bytes(self) -> int:
        """Return the missing bytes of a half-received large request; 0 without one."""
        return self._reader.missing_bytes

    @property
    def bytes_in_work(self) -> int:
        """Return the bytes of complete requests, and of responses that wait for earlier ones or for the client."""
        return self._bytes_in_flight + self._bytes_waiting + self._bytes_unsent

    @property
    def bytes_unsent(self) -> int:
        """Return the bytes of responses that wait for the client to read them."""
        return self._bytes_unsent

    @property
    def is_busy(self) -> bool:
        """Return whether it is not read because its requests are in work, and not because its client does not read."""
        return bool(self._bytes_in_flight) and self._is_full and not self._writing_paused

    def idle_ms(self, now_ms: int) -> int:
        """Return for how long no request came and no byte of a response went; to be asked from time to time."""
        sent = 0 if self._transport is None else self._transport.get_extra_info("bytes_sent", 0)
        if sent != self._sent_bytes:
            self._sent_bytes = sent
            self.last_active_ms = now_ms
        return now_ms - self.last_active_ms

    @property
    def is_idle(self) -> bool:
        """Return whether no request is in flight."""
        return not self._slots and not self._flow_control.frames

    def respond(self, slot: ResponseSlot, parts: Sequence[Sendable]) -> None:
        """Set the response of `slot`; empty parts mean that the request has none (acks=0)."""
        assert slot.parts is None
        if self._transport is None:
            _release(parts)
            return
        slot.parts = parts
        if self._slots[0].parts is None or self._writing_paused:  # it waits for an earlier one
            size = _size_of(parts)
            self._bytes_in_flight += size - slot.held_bytes
            slot.held_bytes = size
        elif self._corked and self._flow_control.frames:
            self._slice_bytes += _size_of(parts)
        if not self._corked:
            self._flush()

    def release(self, slot: ResponseSlot) -> None:
        """Count the bytes of a request no longer: it waits for something and its frame is not kept, or it is done."""
        self._bytes_in_flight -= slot.held_bytes
        slot.held_bytes = 0
        slot.outlives_connection = False
        if not self._corked:
            self._account()

    def hold_open(self) -> None:
        """Leave this connection, which its handler refuses, open and unread until it is aborted."""
        self._is_held_open = True
        if self._transport is not None:
            # A transport reads from the end of `connection_made` on.
            asyncio.get_running_loop().call_soon(self._transport.pause_reading)

    def read_on(self) -> None:
        """Read again: the budget has room."""
        self._is_held_back = False
        self._update_flow_control()

    def cork(self) -> None:
        """Hold responses back until `uncork` sends them together: both are called in one iteration of the loop."""
        self._corked = True

    def uncork(self) -> None:
        """Send the responses that are ready."""
        self._corked = False
        self._flush()

    def send_ready(self) -> None:
        """Send the responses that are ready now, in the middle of a time slice."""
        self._flush()

    @property
    def is_blocked(self) -> bool:
        """Return whether no further frame is handled until `unblock`."""
        return self._blocks > 0

    def block(self) -> None:
        """Handle no further frame until `unblock`: the handler is not done with its part that goes in order.

        To be called in `received`, or when it is blocked already: then each `block` needs its `unblock`.
        """
        self._blocks += 1

    def unblock(self) -> None:
        """Handle frames again, in the next iteration of the loop, unless there was another `block`."""
        self._blocks -= 1
        assert self._blocks >= 0, "unblocked twice"
        self._update_flow_control()

    def abort(self) -> None:
        """Close now, dropping what waits to be sent."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Send what is ready and in order, then close."""
        if self._transport is not None:
            self._transport.close()

    # -- inside

    def _handle_waiting(self) -> None:
        """Handle frames that came before, in a later iteration of the loop."""
        meter = self.meter
        if meter is None:
            self._handle_frames()
        else:
            with meter.event():
                self._handle_frames()

    def _handle_frames(self) -> None:
        """Handle frames for a time slice: as many as have room, up to a number; their responses leave together."""
        self._corked = True
        self._slice_bytes = 0
        frames, slots, received = self._flow_control.frames, self._slots, self._handler.received
        left, transport, end_ms = _SLICE_FRAMES, self._transport, 0
        try:
            while frames and left and not self._is_full and self._slice_bytes <= _SLICE_BYTES:
                if transport is None or transport.is_closing():
                    break
                left -= 1
                frame = frames.popleft()
                size = len(frame)
                if self._bytes_waiting:
                    self._bytes_waiting -= size + _FRAME_COST
                slot = ResponseSlot(size)
                slots.append(slot)
                self._bytes_in_flight += size
                received(self, slot, frame)
                if not end_ms:
                    end_ms = self.last_active_ms + _SLICE_MS
                elif self.last_active_ms >= end_ms:
                    break
        finally:
            self._corked = False
            try:
                if left < _SLICE_FRAMES:
                    self._handler.slice_ended(self)
            finally:
                self._flush()

    @property
    def _is_full(self) -> bool:
        return (
            self._blocks > 0
            or self._bytes_in_flight >= self._max_in_flight_bytes
            or len(self._slots) >= self._max_in_flight
            or self._writing_paused
        )

    def _flush(self) -> None:
        """Send every response at the head of the order."""
        transport, slots = self._transport, self._slots
        if transport is None:
            return
        parts: list[Sendable] = []
        while slots and slots[0].parts is not None and not self._writing_paused:
            slot = slots.popleft()
            self._bytes_in_flight -= slot.held_bytes
            parts.extend(slot.parts or ())
        if parts:
            transport.writelines(parts)
            self._bytes_unsent = transport.get_write_buffer_size()
        self._update_flow_control()

    def _update_flow_control(self) -> None:
        """Handle and read more while there is room for more requests."""
        flow_control = self._flow_control
        # Nearly always nothing waits, and the connection is read and continues to be.
        if flow_control.frames or flow_control.is_paused or self._is_held_back or self._is_full:
            flow_control.update(
                self._transport,
                self._handle_waiting,
                is_full=self._is_full,
                is_held_back=self._is_held_back,
            )
        if flow_control.frames or self._is_scheduled:
            self._note_waiting()
        if (
            self._bytes_in_flight
            + self._bytes_waiting
            + self._bytes_unsent
            + self._reader.partial_bytes
            != self._bytes_held
        ):
            self._account()

    def _sending(self) -> None:
        """Note that more of the responses is about to be sent, because the client has read some."""
        if self.meter is not None:
            self.meter.begin()
            self.meter.enter()

    def _sent(self) -> None:
        """Report to the budget that the client has read some of its responses."""
        if self._transport is not None:
            self._bytes_unsent = self._transport.get_write_buffer_size()
            self._account()
        if self.meter is not None:
            self.meter.leave()

    def _note_waiting(self) -> None:
        """Report to the budget whether frames wait to be handled."""
        frames, is_scheduled = self._flow_control.frames, self._flow_control.is_scheduled
        if frames and not self._bytes_waiting:
            self._bytes_waiting = sum(map(len, frames)) + _FRAME_COST * len(frames)
        if is_scheduled is not self._is_scheduled:
            self._is_scheduled = is_scheduled
            self._budget.queue(1 if is_scheduled else -1)

    def _account(self) -> None:
        """Report to the budget what the requests of this connection hold."""
        held = self.bytes_in_work + self._reader.partial_bytes
        if held != self._bytes_held:
            self._bytes_held = held
            self._budget.account(self)
            if self._share is not None:
                self._share.account(self)


def _size_of(parts: Sequence[Sendable]) -> int:
    """Return how many bytes of memory a response takes."""
    if len(parts) == 1 and type(parts[0]) is bytearray:
        return len(parts[0])
    return sum(len(part) for part in parts if isinstance(part, bytes | bytearray | memoryview))


def _release(parts: Sequence[Sendable] | None) -> None:
    for part in parts or ():
        if not isinstance(part, bytes | bytearray | memoryview):
            part.release()
