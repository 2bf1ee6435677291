"""A listening port on the loop."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka.io import BufferedProtocol, ServerTls
from kavka.net.transport import SocketTransport, set_tcp_options
from kavka.values import frozen

if TYPE_CHECKING:
    from kavka.net.tls.handshakes import Handshakes

log = logging.getLogger(__name__)

_OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE_S = 1.0
_MAX_RESERVED = 1024


@frozen
class SocketOptions:
    """Sizes of kernel buffers in bytes, -1 for the system's own, and the backlog of waiting connections."""

    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = 128
    send_queue_bytes: int = 1 << 20
    """Answers that may wait in a connection's memory before its requests are no longer read."""


class SocketListener:
    """Accepts connections until `close`; each gets a transport of its own."""

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[], BufferedProtocol],
        options: SocketOptions,
        tls: ServerTls | None = None,
    ) -> None:
        """Take over a bound, listening, non-blocking socket; with `tls`, connections begin with a handshake."""
        self._sock = sock
        self._make = make
        self._handshakes: Handshakes | None = None
        if tls is not None:
            from kavka.net.tls.handshakes import Handshakes

            self._handshakes = Handshakes(tls, make, options.send_queue_bytes)
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._first_reserved = _first_reserved_descriptor()
        self._resume: asyncio.TimerHandle | None = None
        self._is_paused = False
        self._loop.add_reader(sock.fileno(), self._accept)

    @property
    def port(self) -> int:
        """The bound port."""
        return int(self._sock.getsockname()[1])

    def pause_accepting(self) -> None:
        """Leave new connections in the backlog until `resume_accepting`."""
        if not self._is_paused and self._sock.fileno() >= 0:
            self._is_paused = True
            self._loop.remove_reader(self._sock.fileno())

    def resume_accepting(self) -> None:
        """Accept connections again."""
        if self._is_paused and self._sock.fileno() >= 0:
            self._is_paused = False
            if self._resume is None:
                self._loop.add_reader(self._sock.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more; connections that were accepted stay open. Calling it twice is allowed."""
        if self._sock.fileno() < 0:
            return
        if self._handshakes is not None:
            self._handshakes.close()
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()

    def _accept(self) -> None:
        for _ in range(self._options.backlog):
            if self._is_paused:
                return
            try:
                sock, _address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                self._pause(error)
                return
            if sock.fileno() >= self._first_reserved:
                sock.close()
                self._pause(OSError(errno.EMFILE, "the other descriptors are kept for files"))
                return
            _set_options(sock, self._options)
            try:
                if self._handshakes is None:
                    SocketTransport(sock, self._make(), self._options.send_queue_bytes)
                else:
                    self._handshakes.begin(sock)
            except BaseException:
                sock.close()
                raise

    def _pause(self, error: OSError) -> None:
        """Out of descriptors or memory: leave connections in the backlog for a while."""
        log.error("accepting connections paused port=%d reason=%s", self.port, error)
        self._loop.remove_reader(self._sock.fileno())
        self._resume = self._loop.call_later(_PAUSE_S, self._end_pause)

    def _end_pause(self) -> None:
        self._resume = None
        if not self._is_paused:
            self._loop.add_reader(self._sock.fileno(), self._accept)


def _first_reserved_descriptor() -> int:
    """Return the descriptor from which on a connection is refused: a quarter is for files, up to a thousand.

    A process gets the lowest free descriptor, so a high one shows that few are left. Without a reserve, clients that
    open many connections would let the next write to a log or a checkpoint fail, and with it the broker.
    """
    limit, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return 1 << 31
    return limit - min(limit // 4, _MAX_RESERVED)


def _set_options(sock: socket.socket, options: SocketOptions) -> None:
    sock.setblocking(False)
    try:
        set_tcp_options(sock)
        if options.send_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
        if options.receive_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
    except OSError as error:  # the peer is gone already; reading will say so
        log.debug("socket options refused reason=%s", error)


def open_listener(
    host: str,
    port: int,
    make: Callable[[], BufferedProtocol],
    options: SocketOptions,
    tls: ServerTls | None = None,
) -> SocketListener:
    """Bind and listen. An empty host means every interface. Raise OSError when the address is taken or unknown."""
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as error:
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    family, kind, protocol, _name, address = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.setblocking(False)
        sock.bind(address)
        sock.listen(options.backlog)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    except BaseException:
        sock.close()
        raise
    return SocketListener(sock, make, options, tls)
