"""An end of a simulated connection, with the interface of an asyncio transport.

    writelines -> queue -> (window) -> link ... link -> received -> get_buffer / buffer_updated
                  user space           in flight        kernel of the other node

At most a window of bytes is in flight or received and not read; the rest stays in the queue of
the sender, which gets `pause_writing` when it is long. Chunks are split anywhere. The queue of a process that dies is
lost, while the bytes that it had passed to the kernel still arrive; then its kernel closes the connection. A host that
dies sends nothing.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kavka.io import Buffer, BufferedProtocol, Sendable
from kavka.simulation.host import Host
from kavka.simulation.links import Links
from kavka.simulation.process import Process

HIGH_BYTES = 65_536
LOW_BYTES = 16_384


class Endpoint:
    """An `io.Transport`, and the kernel's side of it."""

    peer: Endpoint

    def __init__(self, links: Links, process: Process, node: Host, port: int, number: int) -> None:
        """Create an end on `node`; `number` identifies the connection."""
        self.process = process
        self.node = node
        self.port = port
        self.number = number
        self.closed = False
        self.last_arrival_s = 0.0
        self._links = links
        self._loop = links.loop
        self._protocol: BufferedProtocol | None = None
        self._queue: deque[Sendable] = deque()
        self._sent_of_head = 0
        self._queued_bytes = 0
        self._in_flight = 0
        # What the other side took, and when this one learns of it: checked when there is something to send.
        self._credits: list[tuple[float, int]] = []
        self._received: deque[bytes] = deque()
        self._eof_arrived = False
        self._eof_delivered = False
        self._reading = True
        self._delivering = False
        self._protocol_paused = False
        self._closing = False
        process.at_end.append(self._process_ended)

    def join(self, peer: Endpoint) -> None:
        """Return the address of the other end."""
        self.peer = peer
        self._link = self._links.link(self.node.name, peer.node.name)
        self._back = self._links.link(peer.node.name, self.node.name)

    def attach(self, protocol: BufferedProtocol) -> None:
        """Attach `wire` to the connection, in its own process."""
        self._protocol = protocol
        protocol.connection_made(self)
        if self.closed:
            protocol.connection_lost(_reset_error())
        else:
            self._deliver_soon()

    def connect_protocol(self, make: Callable[[], BufferedProtocol]) -> None:
        """Connect the protocol in the next step of the listening process."""
        self.process.enter(self._connect_protocol, make)

    def _connect_protocol(self, make: Callable[[], BufferedProtocol]) -> None:
        if not self.closed:
            self.attach(make())

    # -- the transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return `peername` or `sockname`."""
        match name:
            case "peername":
                return (self.peer.node.address, self.peer.port)
            case "sockname":
                return (self.node.address, self.port)
        return default

    def write(self, data: Buffer) -> None:
        """Queue one buffer."""
        self.writelines((data,))

    def writelines(self, parts: Sequence[Sendable]) -> None:
        """Queue parts; as with real sockets they are not copied before they are sent."""
        self.process.check_alive()
        if self._closing or self.closed:
            _release(parts)
            return
        for part in parts:
            length = len(part) if isinstance(part, bytes | bytearray | memoryview) else part.length
            if length:
                self._queue.append(part)
                self._queued_bytes += length
            elif not isinstance(part, bytes | bytearray | memoryview):
                part.release()
        self._pump()
        if (
            self._queued_bytes > HIGH_BYTES
            and not self._protocol_paused
            and self._protocol is not None
        ):
            self._protocol_paused = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        """Return 0: the send queues of simulated machines take none of their memory."""
        return 0

    def call_when_sent(
        self, callback: Callable[[], None], before: Callable[[], None] | None = None
    ) -> None:
        """Do nothing, as nothing is counted."""

    def pause_reading(self) -> None:
        """Leave what arrives in the kernel; the window closes behind it."""
        self._reading = False

    def resume_reading(self) -> None:
        """Receive again."""
        if not self._reading and not self._closing:
            self._reading = True
            self._deliver_soon()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or will be."""
        return self._closing or self.closed

    def close(self) -> None:
        """Send what is queued, then close."""
        if self._closing or self.closed or not self.process.alive:
            return
        self._closing = True
        self._reading = False
        if not self._queue:
            self._finish(None)

    def abort(self) -> None:
        """Close at once."""
        if not self.closed and self.process.alive:
            self._closing = True
            self._finish(None)

    # -- sending

    def _pump(self) -> None:
        """Hand to the link what the window allows."""
        window = self._links.weather.window_bytes
        if self._credits:
            self._settle_credits()
        while self._queue and not self.closed and self._in_flight < window:
            chunk = self._take(window - self._in_flight)
            if chunk is None:
                return
            self._in_flight += len(chunk)
            for piece in self._cut(chunk):
                self.last_arrival_s = self._link.send(
                    len(piece) + 40, self.last_arrival_s, self.peer.receive, piece
                )
        if self._queue:
            self._await_credits()
        elif self._closing and not self.closed:
            self._finish(None)

    def _take(self, limit: int) -> bytes | None:
        """Take up to `limit` bytes off the queue; None when a file range could not be read."""
        taken: list[bytes] = []
        while self._queue and limit > 0:
            head = self._queue[0]
            is_buffer = isinstance(head, bytes | bytearray | memoryview)
            length = len(head) if isinstance(head, bytes | bytearray | memoryview) else head.length
            count = min(limit, length - self._sent_of_head)
            data = self._bytes_of(head, count)
            if data is None:
                return None
            taken.append(data)
            limit -= count
            self._queued_bytes -= count
            self._sent_of_head += count
            if self._sent_of_head == length:
                self._queue.popleft()
                self._sent_of_head = 0
                if not is_buffer:
                    _release((head,))
        return b"".join(taken)

    def _bytes_of(self, head: Sendable, count: int) -> bytes | None:
        if isinstance(head, bytes | bytearray | memoryview):
            return bytes(memoryview(head)[self._sent_of_head : self._sent_of_head + count])
        if not self.process.alive:
            return None
        try:
            data = head.file.read_at(count, head.position + self._sent_of_head)
            if len(data) == count:
                return data
            error = OSError(errno.EIO, "the file ended before the range that was promised")
        except OSError as raised:
            error = raised
        self._closing = True
        self._finish(error)
        return None

    def _cut(self, chunk: bytes) -> tuple[bytes, ...]:
        source = self._links.cuts
        if len(chunk) > 1 and source.random() < self._links.weather.cutting:
            middle = source.randrange(1, len(chunk))
            return chunk[:middle], chunk[middle:]
        return (chunk,)

    def credit(self, count: int) -> None:
        """Send the credit for `count` bytes that the other side took."""
        self._credits.append((self._back.crossing(0), count))
        if self._queue:
            self._await_credits()

    def _settle_credits(self) -> None:
        """Count those that have come. A link that is cut lets none through."""
        if not self._back.is_cut:
            now_s = self._loop.time()
            self._in_flight -= sum([count for at_s, count in self._credits if at_s <= now_s])
            self._credits = [credit for credit in self._credits if credit[0] > now_s]

    def _await_credits(self) -> None:
        """Continue sending when they come: the window is full."""
        credits, self._credits = self._credits, []
        for at_s, count in credits:
            self._back.remove_held(at_s, self._credited, count)

    def _credited(self, count: int) -> None:
        self._in_flight -= count
        if not self.closed and self.process.alive:
            self._pump()
            if self._protocol_paused and self._queued_bytes <= LOW_BYTES:
                self.process.enter(self._resume_protocol)

    def _resume_protocol(self) -> None:
        if self._protocol_paused and self._queued_bytes <= LOW_BYTES and self._protocol is not None:
            self._protocol_paused = False
            if not self.closed:
                self._protocol.resume_writing()

    # -- receiving

    def receive(self, piece: bytes | None) -> None:
        """Take bytes off the link; None says that the other side has closed."""
        if self.closed:
            if not self.node.is_up:
                self.node.when_up.append(self._refuse_rest)
            elif piece is not None:
                self._refuse_rest()
            return
        if piece is None:
            self._eof_arrived = True
        else:
            self._links.trace.add_fact(f"{self.number} {self.node.name} {len(piece)}")
            self._received.append(piece)
        self._deliver_soon()

    def _refuse_rest(self) -> None:
        self._link.send(40, 0.0, self.peer.reset)

    def _deliver_soon(self) -> None:
        ready = self._received or (self._eof_arrived and not self._eof_delivered)
        if ready and self._reading and not self._delivering and self._protocol is not None:
            self._delivering = True
            self.process.enter(self._deliver)

    def _deliver(self) -> None:
        self._delivering = False
        if not self._reading or self.closed or self._protocol is None:
            return
        try:
            if self._received:
                self._deliver_bytes(self._protocol)
            elif self._eof_arrived and not self._eof_delivered:
                self._eof_delivered = True
                if not self._protocol.eof_received():
                    self.close()
        except Exception as error:  # noqa: BLE001 - asyncio ends the connection and reports, so do we
            self._loop.call_exception_handler(
                {"message": "a wire raised on received bytes", "exception": error}
            )
            self._closing = True
            self._finish(error)
            return
        self._deliver_soon()

    def _deliver_bytes(self, protocol: BufferedProtocol) -> None:
        """Deliver what one `recv_into` would return."""
        buffer = memoryview(protocol.get_buffer(-1))
        if not buffer:
            return  # the wire has paused reading
        filled = 0
        while self._received and filled < len(buffer):
            piece = self._received.popleft()
            count = min(len(piece), len(buffer) - filled)
            buffer[filled : filled + count] = piece[:count]
            if count < len(piece):
                self._received.appendleft(piece[count:])
            filled += count
            if self._links.cuts.random() < self._links.weather.cutting:
                break
        del buffer
        self.peer.credit(filled)
        protocol.buffer_updated(filled)

    # -- the end

    def reset(self) -> None:
        """Lose the connection to the network, or to a refusal of the other side."""
        if not self.closed:
            self._shut()
            if self._protocol is not None:
                self.process.enter(self._protocol.connection_lost, _reset_error())

    def discard(self) -> None:
        """Close a connection that was never accepted."""
        if not self.closed:
            self._shut()
            self._refuse_rest()

    def _finish(self, error: Exception | None) -> None:
        """Close this end and notify the other."""
        if self.closed:
            return
        self._shut()
        self._send_eof()
        if self._protocol is not None:
            self.process.enter(self._protocol.connection_lost, error)

    def _shut(self) -> None:
        self.closed = True
        self._closing = True
        self._reading = False
        if self.process.alive:
            _release(self._queue)
        self._queue.clear()
        self._queued_bytes = 0

    def _send_eof(self) -> None:
        """Send what the kernel sends: a reset when received bytes were never taken, else the end."""
        if self._received:
            self._link.send(40, 0.0, self.peer.reset)
        else:
            self.last_arrival_s = self._link.send(40, self.last_arrival_s, self.peer.receive, None)

    def _process_ended(self) -> None:
        if not self.closed:
            self._shut()
            if self.node.is_up:
                self._send_eof()


def _release(parts: Sequence[Sendable] | deque[Sendable]) -> None:
    for part in parts:
        if not isinstance(part, bytes | bytearray | memoryview):
            part.release()


def _reset_error() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
