"""The handshakes of a listener with TLS: off the loop's thread, bounded in number and in time.

    accepted -> waits for the client <-> OpenSSL's step on a thread -> done: a transport | failed: closed

A step is a signature or the check of a chain: a millisecond or several, in which OpenSSL leaves the interpreter to
others. Two threads do the steps of all clients, each address in turn. Beyond the bound of handshakes in progress one is
given up, the oldest of the address that has most: a client that means it needs milliseconds, so it gets through while
an attacker holds all places.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kavka.io import BufferedProtocol, ServerTls
from kavka.net.tls.failures import CLOSED_LATER, server_reason
from kavka.net.tls.handshake_steps import HandshakeSteps
from kavka.net.tls.transport import SCRATCH_BYTES, TlsSession, TlsTransport
from kavka.net.transport import host_of, least_missed, name_of

_THREADS = 2
_MAX_HELD = 1024  # refused connections that are kept for a while; others are closed at once
_STEP_BYTES = 32 << 10
_MAX_BYTES = 32 << 10  # of a client's handshake: a chain of ten certificates of 16 Kib keys fits
_HANDSHAKE_RECORD = 0x16
_ALERT = bytes([0x15, 3, 3, 0, 2, 2, 70])
"""A fatal alert: protocol_version."""


class Handshakes:
    """The handshakes in progress of one listener."""

    def __init__(
        self, tls: ServerTls, make: Callable[[], BufferedProtocol], send_queue_bytes: int
    ) -> None:
        """Make a transport over `make()` for each handshake that is done."""
        self.tls = tls
        self.make = make
        self.send_queue_bytes = send_queue_bytes
        self.loop = asyncio.get_running_loop()
        self.steps = HandshakeSteps(_THREADS)
        self.open: dict[Handshake, None] = {}
        """Those in progress, the oldest first."""
        self.scratch = bytearray(SCRATCH_BYTES)
        self._held: dict[socket.socket, asyncio.TimerHandle] = {}

    def begin(self, sock: socket.socket) -> None:
        """Take over the non-blocking socket of a client; one that is not admitted costs no handshake."""
        peername = name_of(sock.getpeername)
        hold_ms = self.tls.admit(host_of(peername))
        if hold_ms is not None:
            self._refuse(sock, hold_ms)
            return
        if len(self.open) >= self.tls.max_handshakes:
            least_missed(self.open).fail("too many handshakes at once (kavka.ssl.max.handshakes)")
        Handshake(self, sock, peername)

    def _refuse(self, sock: socket.socket, hold_ms: int) -> None:
        """Close a connection, after so long: a client in a loop is slowed down."""
        if hold_ms <= 0 or len(self._held) >= _MAX_HELD:
            sock.close()
        else:
            self._held[sock] = self.loop.call_later(hold_ms / 1000, self._end_hold, sock)

    def _end_hold(self, sock: socket.socket) -> None:
        del self._held[sock]
        sock.close()

    def close(self) -> None:
        """Give up those in progress. Calling it twice is allowed."""
        for handshake in list(self.open):
            handshake.close()
        for sock, timer in self._held.items():
            timer.cancel()
            sock.close()
        self._held.clear()
        self.steps.close()


class Handshake:
    """A handshake in progress."""

    def __init__(
        self, owner: Handshakes, sock: socket.socket, peername: tuple[Any, ...] | None
    ) -> None:
        """Wait for the first bytes of the client of this name, which was admitted."""
        self._owner = owner
        self._loop = owner.loop
        self._sock = sock
        self._descriptor = sock.fileno()
        self._peername = peername
        self.host = host_of(peername)
        self._session = TlsSession(owner.tls.context(), owner.scratch)
        self._received = 0
        self._unsent = b""
        self._is_closed = False
        owner.open[self] = None
        self._timer = self._loop.call_later(owner.tls.handshake_timeout_ms / 1000, self._time_out)
        self._loop.add_reader(self._descriptor, self._readable)

    def _time_out(self) -> None:
        what = "sent nothing" if not self._received else "did not finish"
        self.fail(f"the client {what} in {self._owner.tls.handshake_timeout_ms} ms")

    def _readable(self) -> None:
        try:
            data = self._sock.recv(_STEP_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionResetError:
            data = b""  # as an end: so does a client that was sent more than it wants to read
        except OSError as error:
            self.fail(str(error))
            return
        if not data:
            self.fail(
                CLOSED_LATER if self._received else "the client closed the connection at once"
            )
            return
        if not self._received and data[0] != _HANDSHAKE_RECORD:
            with suppress(OSError):  # the client is gone already
                self._sock.send(_ALERT)  # from which clients see what this port is for
            self.fail("the client speaks plain text: it needs security.protocol=SSL, or SASL_SSL")
            return
        self._received += len(data)
        self._loop.remove_reader(self._descriptor)
        self._session.incoming.write(data)
        self._owner.steps.add(self)

    def run(self) -> None:
        """Do the next step, on a thread."""
        if not self._is_closed:
            self._session.object.do_handshake()

    def ran(self, error: BaseException | None) -> None:
        """Send what a step wrote, and wait for the next, or end by what it raised."""
        if self._is_closed:
            return
        self._unsent += self._session.outgoing.read()
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as failed:
            self.fail(str(failed))
            return
        if error is None:
            self._finish()
        elif not isinstance(error, ssl.SSLWantReadError):
            assert isinstance(error, Exception)
            self.fail(server_reason(error))
        elif self._received > _MAX_BYTES:
            self.fail(f"the client sent more than {_MAX_BYTES} bytes before the handshake was done")
        elif self._unsent:
            self._loop.add_writer(self._descriptor, self._writable)
        else:
            self._loop.add_reader(self._descriptor, self._readable)

    def _writable(self) -> None:
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.fail(str(error))
            return
        if not self._unsent:
            self._loop.remove_writer(self._descriptor)
            self._loop.add_reader(self._descriptor, self._readable)

    def _finish(self) -> None:
        self._leave()
        owner = self._owner
        # With the name of before: limits count the client by it, and it may have gone since.
        TlsTransport(
            self._sock,
            owner.make(),
            self._session,
            self._unsent,
            owner.send_queue_bytes,
            peername=self._peername,
        )

    def fail(self, reason: str) -> None:
        """Close the connection and note the reason."""
        self.close()
        self._owner.tls.handshake_failed(self.host, reason)

    def close(self) -> None:
        """Close the connection."""
        self._leave()
        self._sock.close()
        self._owner.tls.release(self.host)

    def _leave(self) -> None:
        self._is_closed = True
        self._owner.open.pop(self, None)
        self._timer.cancel()
        self._owner.steps.discard(self)
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)
