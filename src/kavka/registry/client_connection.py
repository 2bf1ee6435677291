"""A socket of a served registry: a four-letter word, or a session and its requests.

    opened --4 letters--> answered, closed
    opened --ConnectRequest--> admitted --requests--> ... closed by either side, by expiry, or by senseless bytes

The session outlives the connection; the client continues with it on another one.
"""

from __future__ import annotations

import asyncio
import logging
from struct import Struct
from typing import Protocol

from kavka.io import Transport
from kavka.net.flow_control import ReadFlowControl
from kavka.net.frames import FrameReader, InvalidFrameSize
from kavka.registry.request_processor import RequestProcessor
from kavka.wire.zookeeper.jute import CorruptPacket, Reader, decode
from kavka.wire.zookeeper.messages import ConnectRequest

log = logging.getLogger(__name__)

_SIZE = Struct(">i")
_FIRST_BYTES = 4
_ADMISSION_S = 10.0
_SLICE_FRAMES = 64  # what one connection may have handled before the loop serves the others
_MAX_IN_FLIGHT = 1000
_MAX_UNSENT_BYTES = 32 << 20


class Server(Protocol):
    """The server's interface for its connections."""

    def opened(self, connection: ClientConnection) -> bool:
        """Take a new connection; false refuses it."""
        ...

    def reply_to_word(self, letters: bytes) -> bytes | None:
        """Return the reply to a four-letter word, None when these bytes are none."""
        ...

    def admit(
        self, connection: ClientConnection, request: ConnectRequest, *, is_modern: bool
    ) -> RequestProcessor | None:
        """Begin or resume a session, or return None: the server has answered or closed the connection then.

        A client since 3.4 `is_modern`: its response says whether the server is read-only.
        """
        ...

    def closed(self, connection: ClientConnection) -> None:
        """Forget a connection that `opened` took."""
        ...


class ClientConnection:
    """Implements `io.BufferedProtocol`. Memory is bounded: a slow client is not read from, then closed."""

    def __init__(self, server: Server, frame_bytes: int, chunk: bytearray) -> None:
        """Serve one client; connections of one loop may share `chunk`."""
        self.address = ""
        self.processor: RequestProcessor | None = None
        self._server = server
        self._flow_control = ReadFlowControl()
        self._reader = FrameReader(self._flow_control.frames.append, frame_bytes, chunk)
        self._first = b""
        """The first bytes, up to the length of a four-letter word."""
        self._free_bytes = memoryview(b"")
        """Buffer for the first bytes."""
        self._transport: Transport | None = None
        self._is_handed_off = False
        self._written_bytes = 0
        self._is_writing_paused = False
        self._admission: asyncio.TimerHandle | None = None

    # -- io.BufferedProtocol

    def connection_made(self, transport: Transport) -> None:
        """Wait for the first bytes for a limited time."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        self._is_handed_off = self._server.opened(self)
        if not self._is_handed_off:
            transport.abort()
            return
        self._admission = asyncio.get_running_loop().call_later(_ADMISSION_S, self.abort)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return memory for the next bytes."""
        room = self._reader.get_buffer(sizehint)
        if len(self._first) < _FIRST_BYTES:
            self._free_bytes = room
        return room

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the requests that are complete."""
        try:
            if len(self._first) == _FIRST_BYTES or not self._is_word(nbytes):
                self._reader.buffer_updated(nbytes)
        except InvalidFrameSize as error:
            self._refuse(error)
        self._handle_frames()

    def eof_received(self) -> bool:
        """Close."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; its session continues."""
        self._transport = None
        self._flow_control.drop()
        if self._admission is not None:
            self._admission.cancel()
        if self.processor is not None:
            self.processor.close()
        if self._is_handed_off:
            self._is_handed_off = False
            self._server.closed(self)

    def pause_writing(self) -> None:
        """Read no more requests: the client does not read its replies."""
        self._is_writing_paused = True
        self._update_flow_control()

    def resume_writing(self) -> None:
        """Read requests again."""
        self._is_writing_paused = False
        self._update_flow_control()

    # -- for the server

    @property
    def peer_certificate(self) -> bytes | None:
        """Return the client's certificate in DER, which the handshake has verified; None without one."""
        secured = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        found: bytes | None = None if secured is None else secured.getpeercert(binary_form=True)
        return found

    def send(self, packet: bytearray) -> None:
        """Queue a frame, which gets its size in front."""
        self.send_bytes(_SIZE.pack(len(packet)) + packet)

    def send_bytes(self, data: bytes) -> None:
        """Queue bytes."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._written_bytes += len(data)
        transport.write(data)
        if self._is_writing_paused:
            unsent = self._written_bytes - transport.get_extra_info("bytes_sent", 0)
            if unsent > _MAX_UNSENT_BYTES:
                log.warning(
                    "registry client closed peer=%s reason=it does not read %d bytes of events",
                    self.address,
                    unsent,
                )
                transport.abort()
        elif self._flow_control.is_paused:
            self._update_flow_control()

    def close(self) -> None:
        """Send what is queued, then close."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()

    # -- inside

    def _is_word(self, nbytes: int) -> bool:
        """Distinguish a four-letter word from the size of a frame, and answer it; bytes behind it are not read."""
        self._first += bytes(self._free_bytes[: min(nbytes, _FIRST_BYTES - len(self._first))])
        reply = (
            self._server.reply_to_word(self._first) if len(self._first) == _FIRST_BYTES else None
        )
        if reply is None:
            return False
        self.send_bytes(reply)
        self.close()
        return True

    def _handle_frames(self) -> None:
        """Handle requests for one time slice: as many as there is room for, up to a number."""
        frames = self._flow_control.frames
        try:
            for _ in range(min(_SLICE_FRAMES, len(frames))):
                if self._is_full or self._transport is None or self._transport.is_closing():
                    break
                self._handle(frames.popleft())
        except CorruptPacket as error:
            self._refuse(error)
        except ConnectionError:  # the znode server has failed, and has logged it
            self.abort()
        self._update_flow_control()

    def _refuse(self, error: Exception) -> None:
        log.warning("registry client closed peer=%s reason=%s", self.address, error)
        self.abort()

    def _handle(self, frame: memoryview) -> None:
        if self.processor is None:
            reader = Reader(frame)
            request = decode(ConnectRequest, reader)
            is_modern = reader.remaining > 0
            self.processor = self._server.admit(self, request, is_modern=is_modern)
            if self.processor is not None and self._admission is not None:
                self._admission.cancel()
        else:
            self.processor.handle(frame)

    @property
    def _is_full(self) -> bool:
        in_flight = 0 if self.processor is None else self.processor.in_flight
        return self._is_writing_paused or in_flight >= _MAX_IN_FLIGHT

    def _update_flow_control(self) -> None:
        """Handle and read more while there is room for more requests."""
        self._flow_control.update(self._transport, self._handle_frames, is_full=self._is_full)
