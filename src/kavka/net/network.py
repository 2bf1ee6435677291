"""The real network: TCP on asyncio's loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import cast

from kavka.io import BufferedProtocol, ClientTls, Listener, ServerTls
from kavka.net.listener import SocketOptions, open_listener


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
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return cast(BufferedProtocol, protocol)
