"""A network that injects faults between clients and brokers: it loses requests and responses, refuses and replaces.

It stands on the client's side of real connections, and understands Kafka's frames: each request is decoded and
recorded, then meets the next fault of its API. What no fault meets goes on as it is.

    network.faults[ApiKey.PRODUCE].extend([None, LOSE_RESPONSE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
    async with Producer(settings, network=network) as producer: ...
    assert len(network.seen(ApiKey.PRODUCE)) == 4
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kavka.errors import ErrorCode
from kavka.io import BufferedProtocol, ClientTls, Listener, Sendable, ServerTls
from kavka.net.network import TcpNetwork
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.codec import decode, encode
from kavka.wire.frame import decode_request_header, decode_response, encode_response
from kavka.wire.messages.api_versions import ApiVersionsResponse
from kavka.wire.refusals import refusal

_CHUNK_BYTES = 64 * 1024


class Loss(Enum):
    """Loss of a message, with its connection."""

    REQUEST = "request"
    RESPONSE = "response"


LOSE_REQUEST, LOSE_RESPONSE = Loss.REQUEST, Loss.RESPONSE

Replacement = Callable[[Any], Any]
"""Takes a decoded response, and returns the one that the client gets; None holds it back."""

Fault = Loss | ErrorCode | Replacement | None
"""An error code is the response in place of the broker's: the request does not reach it."""


NO_RESPONSE: Any = object()
"""Value that `respond` returns for a request that the broker does not get and that has no response."""

REWRITTEN = {ApiKey.FETCH, ApiKey.LIST_OFFSETS}
"""APIs whose requests go on as `respond` has left them."""


def joined(parts: Sequence[Sendable]) -> bytes:
    """Return an encoded message in one piece."""
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]


@dataclass(slots=True)
class _Exchange:
    """A request on its way, and the frame of its response once there is one."""

    key: ApiKey
    version: int
    correlation_id: int
    fault: Fault
    response: bytes | None = None


class FaultInjectingNetwork:
    """Implements `io.Network` for clients. Host names are those that brokers advertise; `hosts` maps them to ports."""

    def __init__(self) -> None:
        self.hosts: dict[str, int] = {}
        self.down: set[str] = set()
        """Hosts that refuse connections."""
        self.refused = 0
        """Number of connections that were refused."""
        self.silent: set[str] = set()
        """Hosts that take requests and never respond."""
        self.faults: defaultdict[ApiKey, deque[Fault]] = defaultdict(deque)
        """Faults of the next requests of an API, in their order; None is no fault."""
        self.replacements: dict[ApiKey, Replacement] = {}
        """Replacement of every response of an API that meets no fault."""
        self.responses: dict[ApiKey, Callable[[Any], Any]] = {}
        """Function that responds to every request of an API that meets no fault, in place of the broker."""
        self.hidden: set[ApiKey] = set()
        """APIs that no broker says it has."""
        self.limits: dict[ApiKey, int] = {}
        """The last version of an API that brokers say they have."""
        self.requests: list[tuple[ApiKey, Any]] = []
        self.asked: list[tuple[ApiKey, str]] = []
        """The API and the host of each request."""
        self.links: list[_Link] = []
        self._tcp = TcpNetwork()

    async def connect(
        self,
        host: str,
        port: int,
        make: Callable[[], BufferedProtocol],
        tls: ClientTls | None = None,
    ) -> BufferedProtocol:
        """Connect to the broker that advertises `host`."""
        if host in self.down or host not in self.hosts:
            await asyncio.sleep(0)
            self.refused += 1
            raise ConnectionRefusedError(f"{host}:{port} is down")
        link = await self._tcp.connect(
            "127.0.0.1", self.hosts[host], lambda: _Link(self, host, make()), tls
        )
        assert isinstance(link, _Link)
        self.links.append(link)
        return link.inner

    async def listen(
        self,
        host: str,
        port: int,
        make: Callable[[], BufferedProtocol],
        tls: ServerTls | None = None,
    ) -> Listener:
        """Clients do not listen."""
        raise AssertionError("clients do not listen")

    def respond(self, host: str, key: ApiKey, request: Any) -> Any:
        """Return what responds to a request in place of the broker; None for the broker. A request may be changed."""
        response = self.responses.get(key)
        return None if response is None else response(request)

    def replacement(self, key: ApiKey) -> Replacement | None:
        """Return what replaces the responses of an API."""
        if key is ApiKey.API_VERSIONS and key not in self.replacements:
            return self._limited
        return self.replacements.get(key)

    def _limited(self, response: ApiVersionsResponse) -> ApiVersionsResponse:
        response.api_keys = [row for row in response.api_keys if row.api_key not in self.hidden]
        for row in response.api_keys:
            if row.api_key in self.limits:
                row.max_version = self.limits[ApiKey(row.api_key)]
        return response

    def seen(self, key: ApiKey) -> list[Any]:
        """Return the requests of an API, in their order."""
        return [request for api, request in self.requests if api is key]

    async def abandon(self) -> None:
        """Close the sockets of clients that nothing closes, which do not learn of it."""
        for link in self.links:
            link.inner = asyncio.BufferedProtocol()  # type: ignore[assignment]
            link.close()
        self.links.clear()
        await asyncio.sleep(0)  # sockets are closed in the next iteration of the loop

    def kill(self, host: str) -> None:
        """Break the connections to a host, and refuse new ones."""
        self.down.add(host)
        for link in self.links:
            if link.host == host:
                link.close()


class _Frames:
    """Puts frames together from what comes."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes | memoryview) -> list[bytes]:
        """Return the frames that are complete now, without their lengths."""
        self._pending += data
        found = []
        while len(self._pending) >= 4:
            (length,) = struct.unpack_from(">i", self._pending)
            if len(self._pending) < 4 + length:
                break
            found.append(bytes(self._pending[4 : 4 + length]))
            del self._pending[: 4 + length]
        return found


class _Outgoing:
    """The transport that the client writes to: requests go through the link."""

    def __init__(self, link: _Link, transport: Any) -> None:
        self._link = link
        self._transport = transport

    def write(self, data: Any) -> None:
        self._link.sent(bytes(data))

    def writelines(self, parts: Any) -> None:
        self._link.sent(b"".join(bytes(part) for part in parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Link(asyncio.BufferedProtocol):
    """One connection of a client: the protocol of the socket, in front of the client's."""

    def __init__(self, network: FaultInjectingNetwork, host: str, inner: BufferedProtocol) -> None:
        self.host = host
        self.inner = inner
        self._network = network
        self._transport: Any = None
        self._chunk = bytearray(_CHUNK_BYTES)
        self._requests = _Frames()
        self._responses = _Frames()
        self._exchanges: deque[_Exchange] = deque()
        self.is_closed = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.inner.connection_made(_Outgoing(self, transport))

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._chunk

    def buffer_updated(self, nbytes: int) -> None:
        for frame in self._responses.feed(memoryview(self._chunk)[:nbytes]):
            self._received(frame)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def close(self) -> None:
        """Break the connection."""
        self.is_closed = True
        self._transport.abort()

    def sent(self, data: bytes) -> None:
        """Take what the client writes."""
        for frame in self._requests.feed(data):
            if not self.is_closed:
                self._send(frame)

    def _send(self, frame: bytes) -> None:
        header = decode_request_header(memoryview(frame))
        key, version = ApiKey(header.api_key), header.api_version
        network = self._network
        if self.host in network.silent:
            return
        request: Any = None
        if version <= APIS[key].max_version:
            kind = APIS[key].request()
            request = decode(kind, version, memoryview(frame), header.body_position)
        network.requests.append((key, request))
        network.asked.append((key, self.host))
        fault = network.faults[key].popleft() if network.faults[key] else None
        if fault is LOSE_REQUEST:
            self.close()
            return
        exchange = _Exchange(key, version, header.correlation_id, fault)
        if key in REWRITTEN:  # what was recorded stays as the client sent it
            kind = APIS[key].request()
            request = decode(kind, version, memoryview(frame), header.body_position)
        response = None if fault else network.respond(self.host, key, request)
        if response is NO_RESPONSE:
            return
        if response is not None:
            exchange.response = self._encoded(exchange, response)
        elif isinstance(fault, ErrorCode):
            exchange.response = self._encoded(exchange, refusal(key, request, fault))
        else:
            if key in REWRITTEN:
                frame = frame[: header.body_position] + joined(encode(request, version))
            self._transport.write(struct.pack(">i", len(frame)) + frame)
        if not (key is ApiKey.PRODUCE and request.acks == 0):
            self._exchanges.append(exchange)
        self._deliver()

    def _received(self, frame: bytes) -> None:
        (correlation_id,) = struct.unpack_from(">i", frame)
        exchange = next(one for one in self._exchanges if one.correlation_id == correlation_id)
        if exchange.fault is LOSE_RESPONSE:
            self.close()
            return
        replace = exchange.fault if callable(exchange.fault) else None
        replace = replace or self._network.replacement(exchange.key)
        exchange.response = struct.pack(">i", len(frame)) + frame
        if replace is not None:
            kind = APIS[exchange.key].response()
            response = replace(decode_response(kind, exchange.version, memoryview(frame))[1])
            if response is None:
                self._exchanges.remove(exchange)
            else:
                exchange.response = self._encoded(exchange, response)
        self._deliver()

    @staticmethod
    def _encoded(exchange: _Exchange, response: Any) -> bytes:
        return joined(encode_response(response, exchange.version, exchange.correlation_id))

    def _deliver(self) -> None:
        """Schedule the responses whose turn has come: a client is never called while it writes."""
        while self._exchanges and self._exchanges[0].response is not None:
            response = self._exchanges.popleft().response
            assert response is not None
            asyncio.get_running_loop().call_soon(self._hand_over, response)

    def _hand_over(self, response: bytes) -> None:
        at = 0
        while at < len(response) and not self.is_closed:
            buffer = memoryview(self.inner.get_buffer(-1))
            length = min(len(buffer), len(response) - at)
            buffer[:length] = response[at : at + length]
            self.inner.buffer_updated(length)
            at += length
