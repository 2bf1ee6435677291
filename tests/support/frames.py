"""Requests as frames on a socket, for tests of what a broker does with bytes."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from kavka.wire.frame import encode_request
from support.one_broker import Served


def framed(message: Any, version: int, correlation_id: int = 1) -> bytes:
    """Return a request with its header and its length."""
    return b"".join(map(bytes, encode_request(message, version, correlation_id, "c")))  # type: ignore[arg-type]


async def connected(served: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection to a broker in this process."""
    return await asyncio.open_connection("127.0.0.1", served.port)


async def read_response(reader: asyncio.StreamReader) -> bytes:
    """Read a response without its length."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)
