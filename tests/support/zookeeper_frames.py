"""ZooKeeper's protocol frame by frame, with a served registry on a socket."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from kavka.net.clock import SystemClock, SystemRandom
from kavka.net.network import TcpNetwork
from kavka.registry.registry_server import RegistryServer
from kavka.registry.registry_server_config import RegistryServerConfig
from kavka.registry.znode_server import ZnodeServer
from kavka.wire.zookeeper.jute import Reader, append, decode, encode
from kavka.wire.zookeeper.messages import (
    OPEN_ACL,
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    MultiHeader,
    ReplyHeader,
    RequestHeader,
)

R = TypeVar("R", bound=NamedTuple)
HOST = "127.0.0.1"
_opened: list[Client] = []


def in_memory() -> ZnodeServer:
    """Return a server of nodes that are kept nowhere."""
    return ZnodeServer(SystemClock(), SystemRandom())


@asynccontextmanager
async def serving(
    settings: Mapping[str, str] | None = None,
    znode_server: ZnodeServer | None = None,
    port: int = 0,
) -> AsyncIterator[RegistryServer]:
    """Serve nodes, by default none, on a free port; the clients that were opened are closed at the end."""
    texts = {"clientPort": str(port), "clientPortAddress": HOST, **(settings or {})}
    server = RegistryServer(
        znode_server or in_memory(), RegistryServerConfig.parse(texts), TcpNetwork()
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        while _opened:
            await _opened.pop().close()


class Reply(NamedTuple):
    """A response, whose body is not read yet."""

    xid: int
    zxid: int
    error: int
    body: Reader

    def read(self, kind: type[R]) -> R:
        """Return the body of a response without error."""
        assert self.error == 0
        return decode(kind, self.body)


class Client:
    """ZooKeeper's protocol and nothing else: what is sent and received is up to the test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.xid = 0

    @classmethod
    async def open(cls, port: int) -> Client:
        client = cls(*await asyncio.open_connection(HOST, port))
        _opened.append(client)
        return client

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    @classmethod
    async def connected(cls, port: int, **fields: Any) -> tuple[Client, ConnectResponse]:
        client = await cls.open(port)
        return client, await client.connect(**fields)

    async def connect(self, timeout_ms: int = 10_000, tail: bytes = b"\0", **fields: Any) -> Any:
        request = ConnectRequest(0, 0, timeout_ms, 0, bytes(16))._replace(**fields)
        self.send_frame(bytes(encode(request)) + tail)
        reader = Reader(await self.frame())
        response = decode(ConnectResponse, reader)
        assert reader.remaining == len(tail)
        return response

    def send_frame(self, payload: bytes) -> None:
        self.writer.write(struct.pack(">i", len(payload)) + payload)

    def send(self, kind: int, request: NamedTuple | bytes | None = None, xid: int = 0) -> None:
        self.xid += 1
        payload = encode(RequestHeader(xid or self.xid, kind))
        if isinstance(request, bytes):
            payload += request
        elif request is not None:
            append(payload, request)
        self.send_frame(bytes(payload))

    async def frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def receive(self) -> Reply:
        reader = Reader(await self.frame())
        return Reply(*decode(ReplyHeader, reader), reader)

    async def ask(
        self, kind: int, request: NamedTuple | bytes | None = None, xid: int = 0
    ) -> Reply:
        self.send(kind, request, xid)
        response = await self.receive()
        assert response.xid == (xid or self.xid)
        return response

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


def create(path: str, data: bytes = b"", flags: int = 0) -> CreateRequest:
    """Return the request for a node that everybody may do anything with."""
    return CreateRequest(path, data, OPEN_ACL, flags)


def multi(*operations: tuple[int, NamedTuple]) -> bytes:
    """Return the body of a request of several operations."""
    body = bytearray()
    for kind, request in operations:
        append(body, MultiHeader(kind, False, -1))
        append(body, request)
    append(body, MultiHeader(-1, True, -1))
    return bytes(body)
