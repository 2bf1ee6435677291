"""Connections of clients to one broker, between its socket and the broker, where faults are put in.

A request comes as a frame. The first frame of a connection meets a fault, or none, and is then handed on to the broker,
answered in its place, or lost; those behind it wait, as they do in a broker that answers in order.

    socket -> ClientLink -> the broker's connection -> PacedOutput -> socket
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from kavka.errors import ErrorCode, KafkaError
from kavka.io import BufferedProtocol
from kavka.testing.paced_output import PacedOutput
from kavka.testing.request_faults import FaultKind, RequestFault, RequestFaults, names_in
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.codec import CorruptFrame, decode
from kavka.wire.frame import RequestHeader, decode_request_header, encode_response
from kavka.wire.messages.fetch import FetchResponse
from kavka.wire.messages.metadata import MetadataResponseBroker
from kavka.wire.refusals import refusal

log = logging.getLogger(__name__)

_CHUNK_BYTES = 64 * 1024
_MAX_FRAME_BYTES = 1 << 30
_RETRY_S = 0.002


class ClientLinks:
    """All connections of clients to one broker, and what happens to them. Changed on any thread, one step each."""

    def __init__(self, number: int) -> None:
        """Start without faults, for broker `number`."""
        self.number = number
        self.port = 0
        self.faults = RequestFaults()
        self.seen: Counter[str] = Counter()
        """The number of requests of each API, those that met a fault included."""
        self.is_silent = False
        """Nothing gets through, in either direction."""
        self.is_refusing = False
        self.latency_s = 0.0
        self.bytes_per_s = 0.0
        """Of each connection and direction; 0 for no limit."""
        self.name_of: Callable[[Any], str | None] = lambda _topic_id: None
        self.open: dict[ClientLink, None] = {}

    @property
    def is_paced(self) -> bool:
        """Return whether the network is slow."""
        return bool(self.latency_s or self.bytes_per_s)

    def wrap(self, inner: BufferedProtocol) -> BufferedProtocol:
        """Return the protocol of a new connection."""
        return ClientLink(self, inner)

    def changed(self) -> None:
        """Carry on where something has ended; on the broker's loop."""
        for link in list(self.open):
            if link.hangs_for is not None and not self.faults.has(link.hangs_for):
                link.transport.abort()
            link.pump()
            link.output.send_due()

    def cut(self) -> None:
        """Break all connections; on the broker's loop."""
        for link in list(self.open):
            link.transport.abort()

    def reset(self) -> None:
        """End all faults; on the broker's loop. A connection in which a request hangs breaks."""
        self.faults.clear()
        self.is_silent = False
        self.latency_s = self.bytes_per_s = 0.0
        for link in list(self.open):
            if link.is_stuck:
                link.transport.abort()
        self.changed()


class _First:
    """The first frame of a connection, its fault, and when it may go on."""

    __slots__ = ("due", "fault", "frame", "header", "request")

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.header: RequestHeader | None = None
        self.request: Any = None
        self.fault: RequestFault | None = None
        self.due = 0.0

    @property
    def key(self) -> ApiKey:
        assert self.header is not None
        return ApiKey(self.header.api_key)


class ClientLink(asyncio.BufferedProtocol):
    """One connection: the protocol of the socket, in front of the broker's."""

    def __init__(self, links: ClientLinks, inner: BufferedProtocol) -> None:
        """Stand before `inner`."""
        self.transport: Any = None
        self.output: PacedOutput
        self.is_stuck = False
        """A request gets no response, so nothing behind it does."""
        self.hangs_for: int | None = None
        """The fault that is the reason."""
        self._links = links
        self._inner = inner
        self._chunk = bytearray(_CHUNK_BYTES)
        self._received = bytearray()
        self._frames: deque[bytes] = deque()
        self._first: _First | None = None
        self._feeding: memoryview | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._input_due = 0.0

    # -- the protocol of the socket

    def connection_made(self, transport: Any) -> None:
        """Introduce the connection to the broker."""
        self.transport = transport
        self.output = PacedOutput(transport, self._links)
        self._links.open[self] = None
        self._inner.connection_made(self.output)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return memory for what comes."""
        return self._chunk

    def buffer_updated(self, nbytes: int) -> None:
        """Take frames apart, and hand them on."""
        self._received += memoryview(self._chunk)[:nbytes]
        while len(self._received) >= 4:
            (length,) = struct.unpack_from(">i", self._received)
            size = 4 + length
            if (
                not 0 <= length <= _MAX_FRAME_BYTES
            ):  # no Kafka: the broker says what it thinks of it
                size = len(self._received)
            if len(self._received) < size:
                break
            self._frames.append(bytes(self._received[:size]))
            del self._received[:size]
        self.pump()

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what waits."""
        self._links.open.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._frames.clear()
        self._first = self._feeding = None
        self.output.drop()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._inner.resume_writing()

    # -- frames

    def pump(self) -> None:
        """Hand on what may go on now."""
        if self._timer is not None:
            return
        while not (self.transport.is_closing() or self.is_stuck or self._links.is_silent):
            if self._feeding is not None:
                if not self._feed():
                    return
            elif not self._frames or not self._advance():
                return

    def _advance(self) -> bool:
        """Carry out the first frame; return False if it has to wait."""
        if self._first is None:
            self._first = self._meet(self._frames[0])
        wait_s = self._wait_s(self._first)
        if wait_s > 0:
            self._wait(wait_s)
            return False
        self._frames.popleft()
        first, self._first = self._first, None
        self._carry_out(first)
        return True

    def _wait(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        self.pump()

    def _meet(self, frame: bytes) -> _First:
        """Return what happens to a frame."""
        first = _First(frame)
        now = asyncio.get_running_loop().time()
        try:
            first.header = decode_request_header(memoryview(frame)[4:])
            key = first.key
        except (CorruptFrame, ValueError):  # what is no request is the broker's to refuse
            return first
        links = self._links
        links.seen[key.name] += 1
        if links.faults.concern(key):
            self._decode(first)
            if not self._needs_whole_fetch(first):
                first.fault = links.faults.meet(
                    key, first.header.client_id, lambda kind: self._names(kind, first)
                )
        first.due = now + (first.fault.delay_s if first.fault else 0.0)
        if links.is_paced:
            start = max(now + links.latency_s, self._input_due)
            cost_s = len(frame) / links.bytes_per_s if links.bytes_per_s else 0.0
            self._input_due = start + cost_s
            first.due = max(first.due, self._input_due)
        return first

    def _decode(self, first: _First) -> None:
        """Decode the request, if it is one of a version that is known here."""
        header = first.header
        assert header is not None
        api = APIS.get(first.key)
        if api is not None and api.min_version <= header.api_version <= api.max_version:
            try:
                frame = memoryview(first.frame)[4:]
                first.request = decode(
                    api.request(), header.api_version, frame, header.body_position
                )
            except CorruptFrame:
                return

    def _names(self, kind: str, first: _First) -> list[str | None]:
        if first.request is None:
            return []
        return names_in(kind, first.key, first.request, self._links.name_of)

    def _needs_whole_fetch(self, first: _First) -> bool:
        """End a fetch session whose request names no partition, so that the next one names them; return whether."""
        if first.key is not ApiKey.FETCH or first.request is None:
            return False
        if first.request.topics or not first.request.session_id:
            return False
        # It counts for no test: the client sends the fetch again at once, as a whole.
        first.fault = RequestFault(
            0, ApiKey.FETCH, FaultKind.FAIL, code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        )
        return True

    def _wait_s(self, first: _First) -> float:
        fault = first.fault
        takes_turn = fault is not None and fault.kind in (FaultKind.FAIL, FaultKind.DROP_RESPONSE)
        # Responses leave in the order of their requests: wait for those before.
        if takes_turn and not self._is_idle():
            return _RETRY_S
        return first.due - asyncio.get_running_loop().time()

    def _is_idle(self) -> bool:
        """Return whether all responses have left."""
        connection: Any = self._inner
        return bool(connection.is_idle) and not self.output.get_write_buffer_size()

    def _carry_out(self, first: _First) -> None:
        kind = None if first.fault is None else first.fault.kind
        if kind is FaultKind.DROP_REQUEST:
            self.transport.abort()
        elif kind is FaultKind.HANG:
            assert first.fault is not None
            self.is_stuck, self.hangs_for = True, first.fault.fault_id
        elif kind is FaultKind.FAIL:
            self._refuse(first)
        else:
            self._feeding = memoryview(first.frame)
            if kind is FaultKind.DROP_RESPONSE:
                self.output.breaks_at_response = True
                self._feed()
                self.is_stuck = True
                if self._has_no_response(first):
                    self.transport.abort()

    @staticmethod
    def _has_no_response(first: _First) -> bool:
        return first.key is ApiKey.PRODUCE and first.request is not None and not first.request.acks

    def _refuse(self, first: _First) -> None:
        assert first.fault is not None
        assert first.header is not None
        if first.request is None or self._has_no_response(first):
            return
        key, code = first.key, first.fault.code
        if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            response: Any = FetchResponse(error_code=code)
        else:
            response = refusal(key, first.request, code)
        if key is ApiKey.METADATA:  # a client without a broker would have to begin again
            here = MetadataResponseBroker(
                node_id=self._links.number, host="127.0.0.1", port=self._links.port
            )
            response.brokers = [here]
        try:
            parts = encode_response(response, first.header.api_version, first.header.correlation_id)
        except KafkaError as error:
            log.error(
                "fault cannot be put in: the connection is closed api=%s reason=%s", key.name, error
            )
            self.transport.abort()
        else:
            self.output.writelines(parts)

    def _feed(self) -> bool:
        """Give the broker as much of a frame as it takes; return False if it has to wait for the rest."""
        while self._feeding:
            rest = self._feeding
            buffer = memoryview(self._inner.get_buffer(len(rest)))
            if not buffer:  # the broker has paused reading
                self._wait(_RETRY_S)
                return False
            length = min(len(buffer), len(rest))
            buffer[:length] = rest[:length]
            # Before the broker has it: what it does with it may end the connection.
            self._feeding = rest[length:]
            self._inner.buffer_updated(length)
        self._feeding = None
        return True
