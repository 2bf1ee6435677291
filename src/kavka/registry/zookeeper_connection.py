"""A connection to a server of a ZooKeeper ensemble: handshake, requests in order, pings, the watch events.

    connecting -> greeting (ConnectRequest, ConnectResponse) -> open -> lost

The loop itself pings: a broker with a blocked loop sends no pings, and its session expires as it should. A connection
is never opened again; the session (`zookeeper`) creates another one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kavka.core.znodes import ZnodeError, is_valid_path
from kavka.io import Network
from kavka.metrics.timings import Timings
from kavka.net.frames import FrameReader, InvalidFrameSize
from kavka.wire.zookeeper.jute import CorruptPacket, Reader, decode, encode
from kavka.wire.zookeeper.messages import (
    AUTH_XID,
    NOTIFICATION_XID,
    PING_XID,
    SET_WATCHES_XID,
    ConnectRequest,
    ConnectResponse,
    OpCode,
    ReplyHeader,
    RequestHeader,
    SetWatchesRequest,
    WatcherEvent,
)

_MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Maximum size of a response: the children of a very large node exceed `jute.maxbuffer`."""
_LARGEST_XID = 2**31 - 1
_DEFAULT_PORT = 2181


def parse_connect(connect: str) -> tuple[list[tuple[str, int]], str]:
    """Return the members and the chroot (empty for none) of `host:port,host:port/chroot`. Raise ValueError."""
    members, slash, below = connect.strip().partition("/")
    chroot = slash + below.strip("/") if below.strip("/") else ""
    if chroot and not is_valid_path(chroot):
        raise ValueError(f"zookeeper.connect has an invalid chroot: {connect!r}")
    addresses = []
    for member in members.split(","):
        host, colon, port = member.strip().rpartition(":")
        if not colon:
            host, port = member.strip(), str(_DEFAULT_PORT)
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(
                f"zookeeper.connect must be host:port,host:port/chroot, but it is {connect!r}"
            )
        addresses.append((host.strip("[]"), int(port)))
    return addresses, chroot


class ServerRefused(Exception):
    """A request was answered with an error; the code is a ZnodeError or another number of ZooKeeper's."""

    def __init__(self, code: int) -> None:
        """Keep the number."""
        names = {int(error): error.name for error in ZnodeError}
        super().__init__(f"ZooKeeper answered {names.get(code, code)}")
        self.code = code


class _PendingRequest(NamedTuple):
    """A request that waits for its reply."""

    xid: int
    response: asyncio.Future[Reader]
    sent_s: float


class ZooKeeperConnection(asyncio.BufferedProtocol):
    """A connection of one session. All methods belong to the loop's thread."""

    def __init__(
        self,
        on_event: Callable[[WatcherEvent], None],
        on_lost: Callable[[ZooKeeperConnection], None],
        address: str,
    ) -> None:
        """Use `open` instead; `address` is for errors."""
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(self._on_frame, _MAX_FRAME_BYTES)
        self._on_event = on_event
        self._on_lost = on_lost
        self._transport: Any = None
        self._connect_response: asyncio.Future[ConnectResponse] | None = self._loop.create_future()
        self._pending: deque[_PendingRequest] = deque()
        self._xid = 0
        self._timer: asyncio.TimerHandle | None = None
        self._read_timeout_s = 0.0
        self._sent_s = self._last_received_s = self._loop.time()
        self.last_zxid = 0
        """The newest transaction that this connection has seen a reply of."""
        self.is_lost = False
        self.latencies: Timings | None = None
        """Durations from request to reply, if its owner counts them."""

    @classmethod
    async def open(
        cls,
        network: Network,
        host: str,
        port: int,
        request: ConnectRequest,
        on_event: Callable[[WatcherEvent], None],
        on_lost: Callable[[ZooKeeperConnection], None],
    ) -> tuple[ZooKeeperConnection, ConnectResponse]:
        """Connect and greet; the caller bounds the time. Raise OSError.

        A response with a timeout of 0 or less says that the session is over.
        """
        connection: Any = await network.connect(
            host, port, lambda: cls(on_event, on_lost, f"{host}:{port}")
        )
        try:
            greeting = connection._connect_response
            connection._send(encode(request) + b"\0")  # a read-only member is not good enough
            response = await greeting
        except BaseException:
            connection.abort()
            raise
        if response.timeout_ms > 0:
            connection._keep_alive(response.timeout_ms / 1000)
        return connection, response

    def request(
        self, operation: OpCode, record: NamedTuple | None = None
    ) -> asyncio.Future[Reader]:
        """Send a request; the future is the reply's body. It fails with ServerRefused or ConnectionError."""
        return self.request_encoded(operation, b"" if record is None else encode(record))

    def request_encoded(self, operation: OpCode, body: bytes | bytearray) -> asyncio.Future[Reader]:
        """Send a request with an encoded body: a multi has many records."""
        self._xid = self._xid % _LARGEST_XID + 1
        return self._request(self._xid, operation, body)

    def authenticate(self, body: bytes | bytearray) -> asyncio.Future[Reader]:
        """Show an identity; an error closes the connection."""
        return self._request(AUTH_XID, OpCode.AUTH, body)

    def restore_watches(self, request: SetWatchesRequest) -> asyncio.Future[Reader]:
        """Set the session's watches on a new connection; the server sends the missed events now."""
        return self._request(SET_WATCHES_XID, OpCode.SET_WATCHES, encode(request))

    def abort(self) -> None:
        """Close at once; what waits fails with ConnectionError."""
        self._transport.abort()

    # The wire: called by the transport.

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return memory for the next bytes."""
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes; a stream that cannot be followed is closed."""
        self._last_received_s = self._loop.time()
        try:
            self._reader.buffer_updated(nbytes)
        except (InvalidFrameSize, CorruptPacket) as error:
            self._fail(ConnectionError(f"ZooKeeper sent what cannot be read: {error}"))
            self._transport.abort()

    def eof_received(self) -> bool:
        """Close as well."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail everything that waits."""
        if self._connect_response is None:
            self._fail(ConnectionError(f"the connection to ZooKeeper was lost: {exc or 'closed'}"))
        elif isinstance(exc, ssl.SSLError):
            # In TLS 1.3 a server refuses a client's certificate after the client's side of the handshake is done.
            from kavka.net.tls.failures import ZOOKEEPER, client_failure

            self._fail(client_failure(exc, self._address, ZOOKEEPER))
        else:
            what = "closed the connection before it answered; it may have no quorum, or its port be for TLS"
            self._fail(ConnectionError(f"{self._address} {what} (zookeeper.ssl.client.enable)"))

    def pause_writing(self) -> None:
        """Do nothing: callers wait for their responses, and their number is bounded by the broker's work."""

    def resume_writing(self) -> None:
        """Do nothing."""

    # -- inside

    def _request(
        self, xid: int, operation: OpCode, body: bytes | bytearray
    ) -> asyncio.Future[Reader]:
        reply: asyncio.Future[Reader] = self._loop.create_future()
        if self.is_lost:
            reply.set_exception(ConnectionError("the connection to ZooKeeper is lost"))
            return reply
        packet = encode(RequestHeader(xid, operation))
        packet += body
        self._pending.append(_PendingRequest(xid, reply, self._loop.time()))
        self._send(packet)
        return reply

    def _send(self, packet: bytearray) -> None:
        self._sent_s = self._loop.time()
        self._transport.write(len(packet).to_bytes(4) + packet)

    def _on_frame(self, frame: memoryview) -> None:
        reader = Reader(frame)
        if self._connect_response is not None:
            response = decode(ConnectResponse, reader)
            greeting, self._connect_response = self._connect_response, None
            if not greeting.done():
                greeting.set_result(response)
            return
        header = decode(ReplyHeader, reader)
        if header.xid == NOTIFICATION_XID:
            self._on_event(decode(WatcherEvent, reader))
            return
        if header.xid == PING_XID:
            return
        if not self._pending or self._pending[0].xid != header.xid:
            raise CorruptPacket(f"a reply to the request {header.xid}, which does not wait")
        if header.zxid > 0 and header.xid != SET_WATCHES_XID:
            # Watches that are set again after these have not been notified yet.
            self.last_zxid = header.zxid
        _xid, reply, sent_s = self._pending.popleft()
        if self.latencies is not None:
            self.latencies.record(int((self._last_received_s - sent_s) * 1000))
        if reply.done():
            return
        if header.error:
            reply.set_exception(ServerRefused(header.error))
        else:
            reply.set_result(reader)

    def _keep_alive(self, timeout_s: float) -> None:
        """Ping when a third of the timeout passed in silence; close the connection after two thirds."""
        self._read_timeout_s = timeout_s * 2 / 3
        now = self._loop.time()
        if now - self._last_received_s > self._read_timeout_s:
            self._fail(TimeoutError(f"no response from ZooKeeper for {self._read_timeout_s:.1f} s"))
            self._transport.abort()
            return
        if now - self._sent_s >= timeout_s / 3:
            self._send(encode(RequestHeader(PING_XID, OpCode.PING)))
        self._timer = self._loop.call_later(timeout_s / 6, self._keep_alive, timeout_s)

    def _fail(self, reason: OSError) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        if self._timer is not None:
            self._timer.cancel()
        if self._connect_response is not None and not self._connect_response.done():
            self._connect_response.set_exception(reason)
        asked, self._pending = self._pending, deque()
        for each in asked:
            if not each.response.done():
                each.response.set_exception(ConnectionError(str(reason)))
        self._on_lost(self)
