"""The real network: TCP on asyncio's loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import cast

from kavka.io import BufferedProtocol, ClientTls, Listener, ServerTls
from kavka.net.listener import SocketOptions, open_listener
from kavka.net.transport import SocketTransport, set_tcp_options

_LARGEST_PORT = 65_535
_HAS_SENDMSG = hasattr(socket.socket, "sendmsg")  # Windows has not


class TcpNetwork:
    """TCP of this machine, on the running loop."""

    __slots__ = ("_options",)

    def __init__(self, options: SocketOptions | None = None) -> None:
        """`options` are those of accepted connections."""
        self._options = options or SocketOptions()

    async def listen(
        self,
        host: str,
        port: int,
        make: Callable[[], BufferedProtocol],
        tls: ServerTls | None = None,
    ) -> Listener:
        """Accept on `host`; empty means every interface. Raise OSError when the address is taken."""
        return open_listener(host, port, make, self._options, tls)

    async def connect(
        self,
        host: str,
        port: int,
        make: Callable[[], BufferedProtocol],
        tls: ClientTls | None = None,
    ) -> BufferedProtocol:
        """Connect to the first of the host's addresses that answers. Raise OSError when none does.

        Host and port may be what another process announced: what is no address is one that does not answer.
        """
        loop = asyncio.get_running_loop()
        context = None if tls is None else await tls.context()
        try:
            if not 0 <= port <= _LARGEST_PORT:  # else some loops take it modulo 65,536
                raise OverflowError(f"ports are 0 to {_LARGEST_PORT}")
            if tls is None and isinstance(loop, asyncio.SelectorEventLoop) and _HAS_SENDMSG:
                return await _connect_plain(loop, host, port, make)
            transport, protocol = await loop.create_connection(
                cast("Callable[[], asyncio.BufferedProtocol]", make),
                host,
                port,
                ssl=context,
                server_hostname=None if tls is None else tls.server_hostname(host),
            )
        except ssl.SSLError as error:
            # Before ValueError: that of a certificate is one as well.
            from kavka.net.tls.failures import client_failure

            raise client_failure(error, f"{host}:{port}") from error
        except (
            ValueError,
            OverflowError,
        ) as error:  # a label of 64 letters, a zero; a port above 65535
            raise ConnectionError(f"{host[:256]!r}, port {port}, is no address: {error}") from error
        except ConnectionResetError as error:
            if tls is None:
                raise
            from kavka.net.tls.failures import ClosedInHandshake

            raise ClosedInHandshake(f"{host}:{port}") from error
        connection = transport.get_extra_info("socket")
        if connection is not None:
            set_tcp_options(connection)
        return cast(BufferedProtocol, protocol)


async def _connect_plain(
    loop: asyncio.SelectorEventLoop, host: str, port: int, make: Callable[[], BufferedProtocol]
) -> BufferedProtocol:
    """Connect with the transport of accepted connections: asyncio's copies large requests, twice before Python 3.12."""
    sock = await _connected_socket(loop, host, port)
    try:
        protocol = make()
        set_tcp_options(sock)
        SocketTransport(sock, protocol)
    except BaseException:
        sock.close()
        raise
    return protocol


async def _connected_socket(loop: asyncio.SelectorEventLoop, host: str, port: int) -> socket.socket:
    """Return a socket that is connected to the first address that answers."""
    numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numeric)
    except socket.gaierror:  # a name, which is looked up beside the loop
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failures: list[OSError] = []
    for family, kind, protocol, _name, address in found:
        try:
            return await _try_address(loop, socket.socket(family, kind, protocol), address)
        except OSError as error:
            failures.append(error)
    if len({str(failure) for failure in failures}) <= 1:
        raise failures[0]
    kinds = {type(failure) for failure in failures}
    common = kinds.pop() if len(kinds) == 1 else OSError
    raise common("; ".join(map(str, failures)))


async def _try_address(
    loop: asyncio.SelectorEventLoop, sock: socket.socket, address: tuple[object, ...]
) -> socket.socket:
    """Connect a socket, or close it."""
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
