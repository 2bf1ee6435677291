"""An accepted connection under TLS: `SocketTransport`'s twin, which encrypts what its queue holds.

    received:  socket -> scratch -> [incoming BIO] -> OpenSSL -> the protocol's buffer
    sent:      queue -> up to 64 KiB, ranges read from the page cache -> OpenSSL -> [outgoing BIO] -> sealed -> socket

OpenSSL works in memory and never on the socket: several records cost one system call, and a handshake may run on
another thread. A connection holds at most one sealed chunk, and one record that the protocol has not taken yet.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Any

from kavka.io import BufferedProtocol
from kavka.net.transport import RANGE_COST, SocketTransport, range_ended

SCRATCH_BYTES = 256 << 10
_CHUNK_BYTES = 64 << 10  # of plain text that is encrypted at once
_SLICE_BYTES = 1 << 20  # what one connection may send before the loop serves the others
_RECORD_BYTES = 20_000  # above the longest record
_MAX_CONTROL_BYTES = 64 << 10  # of responses to key updates that a client does not read


class TlsSession:
    """OpenSSL's end of a connection, in memory."""

    __slots__ = ("incoming", "object", "outgoing", "scratch")

    def __init__(self, context: ssl.SSLContext, scratch: bytearray) -> None:
        """Begin a server's end; connections of one loop share `scratch`, which is empty between two callbacks."""
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.scratch = scratch
        self.object = context.wrap_bio(self.incoming, self.outgoing, server_side=True)


class TlsTransport(SocketTransport):
    """A transport of a connection whose handshake is done; used by its loop's thread only."""

    def __init__(
        self,
        sock: socket.socket,
        protocol: BufferedProtocol,
        session: TlsSession,
        unsent: bytes = b"",
        high_bytes: int = 1 << 20,
        *,
        peername: tuple[Any, ...] | None = None,
    ) -> None:
        """Take over a non-blocking socket; `unsent` is the rest of the handshake, `peername` as it was before that."""
        self._session = session
        self._ssl = session.object
        self._scratch = memoryview(session.scratch)
        self._sealed = memoryview(unsent)
        self._has_rest = True  # in OpenSSL: bytes that came and are not decrypted, or not taken
        self._has_ended = False  # what TLS says at the end is encrypted, and perhaps sent
        super().__init__(sock, protocol, high_bytes, peername=peername)
        self._queued_bytes += len(unsent)
        if unsent and not self._closing:
            self._send()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what `SocketTransport` does, `bytes_sent` being encrypted ones, and `ssl_object`."""
        return self._ssl if name == "ssl_object" else super().get_extra_info(name, default)

    # -- receiving

    def resume_reading(self) -> None:
        """Receive again, first what OpenSSL holds already."""
        super().resume_reading()
        if self._has_rest and self._reading:
            self._loop.call_soon(self._read_rest)

    def _read_rest(self) -> None:
        if self._reading and self._has_rest:
            buffer = self._protocol.get_buffer(-1)
            if buffer:
                self._deliver(memoryview(buffer))

    def _readable(self) -> None:
        buffer = self._protocol.get_buffer(-1)
        if not buffer:
            return  # the wire has paused reading
        if self._has_rest or self._receive(len(buffer)):
            self._deliver(memoryview(buffer))

    def _receive(self, wanted: int) -> bool:
        """Take encrypted bytes from the socket, hardly more than is wanted; return whether any came, or the end."""
        most = min(len(self._scratch), max(wanted, _RECORD_BYTES))
        try:
            count = self._sock.recv_into(self._scratch, most)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._fail(error)
            return False
        if count:
            self._session.incoming.write(self._scratch[:count])
        else:
            self._session.incoming.write_eof()
        return True

    def _deliver(self, buffer: memoryview) -> None:
        """Pass what can be decrypted to the protocol, until it pauses."""
        while True:
            count, is_over = self._decrypt(buffer)
            if self._closing:
                return
            if count:
                try:
                    self._protocol.buffer_updated(count)
                except Exception:  # as in a `SocketTransport`
                    self.abort()
                    raise
            if self._session.outgoing.pending and not self._closing:
                self._answer_control()
            if is_over and self._reading:
                self.pause_reading()
                if not self._protocol.eof_received():
                    self.close()
            if not self._has_rest or not self._reading:
                return
            buffer = memoryview(self._protocol.get_buffer(-1))
            if not buffer:
                return

    def _decrypt(self, buffer: memoryview) -> tuple[int, bool]:
        """Fill the buffer; return with how many bytes, and whether the client sends no more."""
        count, size, read, incoming = 0, len(buffer), self._ssl.read, self._session.incoming
        self._has_rest = True
        try:
            while count < size:
                found = read(size - count, buffer[count:])
                if not found:
                    return count, True
                count += int(found)
                # OpenSSL takes whole records from memory. To ask it for one that is not there costs an exception.
                if count < size and not incoming.pending:
                    self._has_rest = False
                    break
        except ssl.SSLWantReadError:
            self._has_rest = False
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return count, True  # without the end that TLS has; frames have their sizes
        except ssl.SSLError as error:
            self._fail(error)
        return count, False

    def _answer_control(self) -> None:
        """Send what OpenSSL answers by itself, to a key update say."""
        if self._session.outgoing.pending > _MAX_CONTROL_BYTES:
            self._fail(OSError("the client does not read the responses to its key updates"))
        elif not self._waits_for_socket:
            self._send()

    # -- sending

    def _write_one(self, buffer: bytearray) -> None:
        self._enqueue((buffer,))

    def _has_unsent(self) -> bool:
        return bool(self._sealed or self._queue or (self._closing and not self._has_ended))

    def _send(self) -> None:
        """Encrypt and send until the queue is empty, the socket is full, or the time slice is over."""
        budget = _SLICE_BYTES
        try:
            while budget > 0 and (self._sealed or self._seal()):
                sent = self._sock.send(self._sealed)
                self._sealed = self._sealed[sent:]
                self._queued_bytes -= sent
                self._sent_bytes += sent
                budget -= sent
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._fail(error)
            return
        self._after_send()

    def _seal(self) -> bool:
        """Encrypt the next chunk of the queue; return whether there is something to send."""
        if self._queue:
            plain = self._next_chunk()
            while plain:
                plain = plain[self._ssl.write(plain) :]
        elif self._closing and not self._has_ended:
            self._has_ended = True
            with suppress(ssl.SSLError):  # the client has not said the same yet, and need not
                self._ssl.unwrap()
        self._sealed = memoryview(self._session.outgoing.read())
        self._queued_bytes += len(self._sealed)
        return bool(self._sealed)

    def _next_chunk(self) -> memoryview:
        """Take up to a chunk of plain text from the queue."""
        pieces: list[memoryview | bytes] = []
        room = _CHUNK_BYTES
        while self._queue and room:
            head, start = self._queue[0], self._sent_of_head
            piece: memoryview | bytes
            if isinstance(head, bytes | bytearray | memoryview):
                piece, size = memoryview(head)[start : start + room], len(head)
                self._queued_bytes -= len(piece)
            else:
                length = min(head.length - start, room)
                piece, size = head.file.read_at(length, head.position + start), head.length
                if len(piece) < length:
                    raise range_ended(length - len(piece))
            pieces.append(piece)
            room -= len(piece)
            self._sent_of_head += len(piece)
            if self._sent_of_head == size:
                self._queue.popleft()
                self._sent_of_head = 0
                if not isinstance(head, bytes | bytearray | memoryview):
                    self._queued_bytes -= RANGE_COST
                    head.release()
        return memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    # -- closing

    def close(self) -> None:
        """Send what is queued and the end that TLS has, then close; nothing more is read."""
        if self._closing:
            return
        self.pause_reading()
        self._closing = True
        if not self._waits_for_socket:
            self._send()

    def _drop(self, error: OSError | None) -> None:
        super()._drop(error)
        self._sealed = memoryview(b"")
