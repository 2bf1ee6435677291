"""The real network door: TCP on asyncio's loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from kavka.doors import Wire


class TcpNetwork:
    """TCP of this machine, on the running loop."""

    __slots__ = ()

    async def connect(self, host: str, port: int, make: Callable[[], Wire]) -> Wire:
        """Connect to the first of the host's addresses that answers. Raise OSError when none does."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(
            cast("Callable[[], asyncio.BufferedProtocol]", make), host, port
        )
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return cast(Wire, protocol)
