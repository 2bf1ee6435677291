"""A connection in plain text: buffers and ranges of files leave in the order in which they were queued.

asyncio's own transports cannot mix buffers with `sendfile` in one queue, and copy large buffers, so this one owns its
socket through `loop.add_reader` and `loop.add_writer`. Accepted connections use it, and on a selector loop those to
other servers. A range is sent by the kernel from the page cache; Python never sees its bytes.

    queue:  [header][range of 00…0.log][header][range of 00…0.log] ...
             send(MSG_MORE)  sendfile

A short range is read when it is queued, unless much waits already, and leaves with its neighbours in one `sendmsg`:
that costs less than a system call for each part.

A file that turns out shorter than its range closes the connection: the size of the frame is on the wire already.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar, cast

from kavka.io import Buffer, BufferedProtocol, FileRange, Sendable

log = logging.getLogger(__name__)

_GATHER = 64  # buffers in one sendmsg
_SLICE_BYTES = 4 << 20  # what one connection may send before the loop serves the others
RANGE_COST = 256
"""The cost of a queued range towards the marks."""
_SHORT_RANGE = 16 << 10  # up to here a copy of the bytes is cheaper than two system calls more
_FEW = 8  # so few buffers, of so many bytes in all, are joined: a copy is cheaper than the queue
_SMALL_BYTES = 4096

_MAPPED = "::ffff:"
"""Before the address of an IPv4 client, where a listener serves IPv6 too."""


class _Client(Protocol):
    """A connection of a client, or the beginning of one."""

    @property
    def host(self) -> str:
        """Return the client's address."""
        ...


C = TypeVar("C", bound=_Client)


def host_of(peer: tuple[Any, ...] | None) -> str:
    """Return the address of a peer (host, port, ...) as settings, quotas and ACLs have it; empty without a peer."""
    return str(peer[0]).removeprefix(_MAPPED) if peer else ""


def set_tcp_options(sock: socket.socket) -> None:
    """Set TCP_NODELAY and SO_KEEPALIVE: small requests leave at once, and the kernel probes a peer that is silent."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def least_missed(clients: Collection[C]) -> C:
    """Return the first client of the address that has most: one address must not crowd out the others.

    There is one client at least; they are in the order in which they came.
    """
    ((host, _number),) = Counter(client.host for client in clients).most_common(1)
    return next(client for client in clients if client.host == host)


class SocketTransport:
    """A transport of a TCP connection on the running loop; used by its loop's thread only."""

    def __init__(
        self,
        sock: socket.socket,
        protocol: BufferedProtocol,
        high_bytes: int = 1 << 20,
        *,
        peername: tuple[Any, ...] | None = None,
    ) -> None:
        """Take over a non-blocking socket; `wire` pauses at `high_bytes` queued and resumes at a quarter of that.

        `peername` is the peer's name where it was asked for before: the peer may have gone since.
        """
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._descriptor = sock.fileno()
        self._protocol = protocol
        self._queue: deque[Sendable] = deque()
        self._sent_of_head = 0
        self._queued_bytes = 0
        self._on_sent: Callable[[], None] | None = None
        self._before_sent: Callable[[], None] | None = None
        self._sent_bytes = 0
        self._high_bytes = high_bytes
        self._low_bytes = high_bytes // 4
        self._waits_for_socket = False
        self._protocol_paused = False
        self._reading = False
        self._closing = False
        self._closed = False
        self._peername = peername or name_of(sock.getpeername)
        self._sockname = name_of(sock.getsockname)
        protocol.connection_made(self)
        self.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return `peername`, `sockname`, `socket`, or `bytes_sent`: how many the socket has taken so far."""
        match name:
            case "peername":
                return self._peername
            case "sockname":
                return self._sockname
            case "socket":
                return self._sock
            case "bytes_sent":
                return self._sent_bytes
        return default

    # -- receiving

    def pause_reading(self) -> None:
        """Leave what arrives in the kernel, so that the peer is held back by TCP."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._descriptor)

    def resume_reading(self) -> None:
        """Receive again."""
        if not self._reading and not self._closing:
            self._reading = True
            self._loop.add_reader(self._descriptor, self._readable)

    def _readable(self) -> None:
        buffer = self._protocol.get_buffer(-1)
        if not buffer:
            return  # the wire has paused reading
        try:
            count = self._sock.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(error)
            return
        if count:
            try:
                self._protocol.buffer_updated(count)
            except Exception:  # a mistake: the protocol may have lost its place in the stream
                self.abort()
                raise
            return
        self.pause_reading()
        if not self._protocol.eof_received():
            self.close()

    # -- sending

    def write(self, data: Buffer) -> None:
        """Queue one buffer."""
        self.writelines((data,))

    def writelines(self, parts: Sequence[Sendable]) -> None:
        """Queue parts and send what the socket takes now. Ranges of a closed connection are released."""
        if self._closing:
            _release(parts)
            return
        if not self._queue and len(parts) <= _FEW:
            if len(parts) == 1 and type(parts[0]) is bytearray:
                self._write_one(parts[0])
                return
            joined = _joined(parts)
            if joined is not None:
                self._write_one(joined)
                return
        self._enqueue(parts)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes of memory the queue takes; a range of a file counts 256."""
        return self._queued_bytes

    def call_when_sent(
        self, callback: Callable[[], None], before: Callable[[], None] | None = None
    ) -> None:
        """See `io.Transport`."""
        self._on_sent, self._before_sent = callback, before

    def _write_one(self, buffer: bytearray) -> None:
        """Send one buffer without the queue, which nearly every response can do without."""
        try:
            sent = self._sock.send(buffer)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._fail(error)
            return
        self._sent_bytes += sent
        if sent < len(buffer):
            self._enqueue((memoryview(buffer)[sent:],))

    def _enqueue(self, parts: Sequence[Sendable]) -> None:
        for index, given in enumerate(parts):
            part = given
            if isinstance(part, bytes | bytearray | memoryview):
                if not part:
                    continue
                self._queued_bytes += len(part)
            elif part.length == 0:
                part.release()
                continue
            elif part.length <= _SHORT_RANGE and self._queued_bytes < self._high_bytes:
                try:
                    part = _read(part)
                except OSError as error:
                    self._fail(error)
                    _release(parts[index + 1 :])
                    return
                self._queued_bytes += len(part)
            else:
                self._queued_bytes += RANGE_COST
            self._queue.append(part)
        if not self._waits_for_socket:
            self._send()
        if self._queued_bytes > self._high_bytes and not self._protocol_paused:
            self._protocol_paused = True
            self._protocol.pause_writing()

    def _send(self) -> None:
        """Send until the queue is empty, the socket is full, or this connection's time slice is over."""
        budget = _SLICE_BYTES
        try:
            while self._queue and budget > 0:
                head = self._queue[0]
                if isinstance(head, bytes | bytearray | memoryview):
                    sent = self._send_buffers()
                else:
                    sent = self._send_range(head)
                budget -= sent
                self._sent_bytes += sent
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._fail(error)
            return
        self._after_send()

    def _send_more(self) -> None:
        """Send what the socket takes now, and report it."""
        if self._before_sent is not None:
            self._before_sent()
        self._send()
        if self._on_sent is not None and not self._closed:
            self._on_sent()

    def _send_buffers(self) -> int:
        buffers: list[Buffer] = []
        flags = 0
        for part in self._queue:
            if not isinstance(part, bytes | bytearray | memoryview):
                flags = socket.MSG_MORE
                break
            if len(buffers) == _GATHER:
                break
            buffers.append(part)
        if self._sent_of_head:
            buffers[0] = memoryview(buffers[0])[self._sent_of_head :]
        sent = (
            self._sock.send(buffers[0], flags)
            if len(buffers) == 1
            else self._sock.sendmsg(buffers, [], flags)
        )
        self._queued_bytes -= sent
        left = sent
        for buffer in buffers:
            if left < len(buffer):
                self._sent_of_head = left if buffer is not buffers[0] else self._sent_of_head + left
                return sent
            left -= len(buffer)
            self._queue.popleft()
            self._sent_of_head = 0
        return sent

    def _send_range(self, part: FileRange) -> int:
        left = part.length - self._sent_of_head
        position = part.position + self._sent_of_head
        sent = os.sendfile(self._descriptor, part.file.fileno(), position, min(left, _SLICE_BYTES))
        if sent == 0:
            raise range_ended(left)
        if sent == left:
            self._queue.popleft()
            self._sent_of_head = 0
            self._queued_bytes -= RANGE_COST
            part.release()
        else:
            self._sent_of_head += sent
        return sent

    def _has_unsent(self) -> bool:
        return bool(self._queue)

    def _after_send(self) -> None:
        if self._has_unsent():
            if not self._waits_for_socket:
                self._waits_for_socket = True
                self._loop.add_writer(self._descriptor, self._send_more)
            self._maybe_resume_protocol()
            return
        if self._waits_for_socket:
            self._waits_for_socket = False
            self._loop.remove_writer(self._descriptor)
        self._maybe_resume_protocol()
        if self._closing:
            self._drop(None)

    def _maybe_resume_protocol(self) -> None:
        if self._protocol_paused and self._queued_bytes <= self._low_bytes:
            self._protocol_paused = False
            self._protocol.resume_writing()

    # -- closing

    def is_closing(self) -> bool:
        """Return whether `close` or `abort` was called, or the peer is gone."""
        return self._closing

    def close(self) -> None:
        """Send what is queued, then close; nothing more is read."""
        if self._closing:
            return
        self.pause_reading()
        self._closing = True
        if not self._has_unsent():
            self._drop(None)

    def abort(self) -> None:
        """Close now; what is queued is dropped."""
        self._fail(None)

    def _fail(self, error: OSError | None) -> None:
        self.pause_reading()
        self._closing = True
        self._drop(error)

    def _drop(self, error: OSError | None) -> None:
        if self._closed:
            return
        self._closed = True
        if self._waits_for_socket:
            self._waits_for_socket = False
            self._loop.remove_writer(self._descriptor)
        _release(self._queue)
        self._queue.clear()
        self._sock.close()
        self._loop.call_soon(self._protocol.connection_lost, error)


def _joined(parts: Sequence[Sendable]) -> bytearray | None:
    """Return a few small buffers as one, which costs less than the queue; None for anything else."""
    joined = bytearray()
    for part in parts:
        if (
            not isinstance(part, bytes | bytearray | memoryview)
            or len(joined) + len(part) > _SMALL_BYTES
        ):
            return None
        joined += part
    return joined


def _read(part: FileRange) -> bytes:
    """Return the bytes of a range, and release it. Raise OSError, also when they are not all there."""
    try:
        found = part.file.read_at(part.length, part.position)
    finally:
        part.release()
    if len(found) < part.length:
        raise range_ended(part.length - len(found))
    return found


def range_ended(missing: int) -> OSError:
    """Return the error of a range of a file that is shorter than it was when it was queued."""
    return OSError(f"log segment ended {missing} bytes before the range that was promised")


def _release(parts: Sequence[Sendable] | deque[Sendable]) -> None:
    for part in parts:
        if not isinstance(part, bytes | bytearray | memoryview):
            part.release()


def name_of(ask: Callable[[], Any]) -> tuple[Any, ...] | None:
    """Return what `getpeername` or `getsockname` answers; None where the peer is gone."""
    try:
        return cast("tuple[Any, ...]", ask())
    except OSError:  # the peer is gone already; reading will say so
        return None
