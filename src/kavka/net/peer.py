"""A connection to a broker: versions negotiated, requests pipelined, responses matched, time bounded.

States: connecting -> negotiating (ApiVersions) -> open -> closed. `Peer.connect` returns in *open*. A peer never
reconnects: its owner makes another one. When a request's time is over the connection is closed, because answers
come in order: everything behind it is late as well.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

from kavka import __version__
from kavka.core.features import TRANSACTION_VERSION
from kavka.errors import ErrorCode, KafkaError
from kavka.io import Network
from kavka.net.frame_memory import RESPONSES
from kavka.net.frames import FrameReader, InvalidFrameSize
from kavka.net.peer_security import PLAINTEXT, PeerSecurity, SaslLogin, TlsHandshakeFailed
from kavka.net.receivers import CallbackReceiver, Decode, Encode, Receiver, Traffic
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.frame import decode_response, encode_request
from kavka.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kavka.wire.schema import schema_of

_CORRELATION = struct.Struct(">i").unpack_from
_MAX_RESPONSE_BYTES = 2**30
_TLS_ALERT = 0x1503
"""The first two bytes of what a listener with TLS answers to plain text; as a size, 352 MB."""
_AUTHENTICATION_MS = 330_000
SOFTWARE = ("kavka", __version__.partition(".dev")[0])
"""Client software name and version, as sent to brokers (KIP-511)."""


class _Waiting(NamedTuple):
    receiver: Receiver
    decode: Decode | None
    version: int
    deadline: float
    timeout_ms: int
    api_key: int
    sent_at: float


class _Unheld:
    """A peer as an authentication uses it while other requests wait: implements `peer_security.Negotiated`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    @property
    def is_closed(self) -> bool:
        return self._peer.is_closed

    def version_of(self, api_key: int, newest: int | None = None) -> int:
        return self._peer.version_of(api_key, newest)

    async def send(self, request: Any, version: int | None = None, timeout_ms: int = 30_000) -> Any:
        return await self._peer.post_unheld(request, version, timeout_ms)


def _deadline(waiting: tuple[int, _Waiting]) -> float:
    return waiting[1].deadline


def _api_key_of(request: Any) -> int:
    key = schema_of(type(request)).api_key
    assert key is not None, f"{type(request).__name__} is not a request"
    return key


def _size(parts: Sequence[Any]) -> int:
    """Return the bytes of a request, which has no ranges of files."""
    return sum(map(len, parts))


class Peer(asyncio.BufferedProtocol):
    """A connection to one broker. All methods belong to the loop's thread."""

    def __init__(
        self,
        client_id: str | None,
        max_response_bytes: int = _MAX_RESPONSE_BYTES,
        traffic: Traffic | None = None,
    ) -> None:
        """Make a wire for `Network.connect`; users call `Peer.connect`."""
        self._client_id = client_id
        self._traffic = traffic
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(self._on_frame, max_response_bytes, memory=RESPONSES)
        self._transport: Any = None
        self._waiting: dict[int, _Waiting] = {}
        # Invariant: while requests wait, it fires no later than the first of their deadlines.
        self._timer: asyncio.TimerHandle | None = None
        self._next_correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._failure: Exception | None = None
        self._closed = self._loop.create_future()
        self._is_paused = False
        self._answered: list[tuple[int, int, float]] = []
        # Called after the bytes that came together; None while none are being taken.
        self._after: list[Callable[[], None]] | None = None
        self._when_writable: dict[Callable[[], None], None] = {}  # each once, in order
        self.features: ApiVersionsResponse = ApiVersionsResponse()
        self.name = "a broker"
        self.last_used = self._loop.time()
        self._throttled_until = 0.0
        # Requests that wait while it authenticates again; None at other times.
        self._held: list[Sequence[Any]] | None = None
        self._authenticating_again: asyncio.Task[None] | None = None
        self._session_timer: asyncio.TimerHandle | None = None

    @classmethod
    async def connect(
        cls,
        network: Network,
        host: str,
        port: int,
        *,
        client_id: str | None = None,
        timeout_ms: int = 10_000,
        security: PeerSecurity = PLAINTEXT,
        traffic: Traffic | None = None,
    ) -> Self:
        """Connect, negotiate versions, authenticate. Raise OSError: TimeoutError and ConnectionError are kinds.

        With SASL, raise KafkaError as `SaslLogin.authenticate` does.
        """
        peer: Any = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                peer = await network.connect(
                    host, port, lambda: cls(client_id, traffic=traffic), security.tls
                )
                peer.name = f"{host}:{port}"
                await peer._negotiate(timeout_ms)
                if security.sasl is not None:
                    again_ms = await security.sasl.authenticate(peer, host, timeout_ms)
                    peer._authenticate_after(again_ms, security.sasl, host)
        except BaseException as error:
            if peer is not None:
                peer.abort()
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"{host}:{port} did not answer in {timeout_ms} ms") from error
            raise
        opened: Self = peer
        return opened

    @property
    def in_flight(self) -> int:
        """Return the number of requests in flight."""
        return len(self._waiting)

    @property
    def is_closed(self) -> bool:
        """Return whether the connection is closed for sending."""
        return self._failure is not None or self._transport is None or self._transport.is_closing()

    @property
    def is_writable(self) -> bool:
        """Return whether the broker keeps up; otherwise requests are queued in memory, without a bound."""
        return not self._is_paused

    @property
    def throttled_s(self) -> float:
        """Return the remaining throttle time of a quota (KIP-219), which owners must respect."""
        return max(self._throttled_until - self._loop.time(), 0.0) if self._throttled_until else 0.0

    def call_when_writable(self, callback: Callable[[], None]) -> None:
        """Call once when the peer is writable again or lost; the same callback is kept once."""
        self._when_writable[callback] = None

    def call_after_responses(self, callback: Callable[[], None]) -> None:
        """Call in a callback of the loop: after the responses that came together, or in the next iteration.

        A callback of a response must not call what may do anything, as a program's own code: it would come between two
        responses, and between what belongs together.
        """
        if self._after is None:
            self._loop.call_soon(callback)
        else:
            self._after.append(callback)

    def supports(self, api_key: int) -> bool:
        """Return whether the broker serves the API in a version that is known here."""
        return api_key in self._versions

    def version_of(self, api_key: int, newest: int | None = None) -> int:
        """Return the newest version that both sides know, at most `newest`. Raise KafkaError UNSUPPORTED_VERSION."""
        low, high = self._versions.get(api_key, (0, -1))
        if newest is not None and newest < high:
            high = newest
        if high < low:
            detail = f"{self.name} does not serve {ApiKey(api_key).name} in a version known here"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
        return high

    @property
    def transaction_version(self) -> int:
        """The level of the feature `transaction.version` that the cluster had when this connection was made."""
        levels = (
            one.max_version_level
            for one in self.features.finalized_features
            if one.name == TRANSACTION_VERSION
        )
        return next(levels, 0)

    def post(
        self, request: Any, version: int | None = None, timeout_ms: int = 30_000
    ) -> asyncio.Future[Any]:
        """Write the request now and return a future of its response; order on the wire is that of the calls.

        The future fails with ConnectionError when the connection is lost, TimeoutError when its time is over,
        CorruptFrame when the response cannot be read. Raise at once ConnectionError on a closed peer, KafkaError
        UNSUPPORTED_VERSION, and what the encoder refuses.
        """
        key = _api_key_of(request)
        if version is None:
            version = self.version_of(key)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._post(partial(encode_request, request), key, version, timeout_ms, self._write, future)
        return future

    def post_then(
        self,
        request: Any,
        version: int,
        timeout_ms: int,
        call: Callable[[Any, Exception | None], None],
    ) -> None:
        """Write the request as `post`, and call with its response, or the failure, in the iteration it comes in."""
        key = _api_key_of(request)
        receiver = CallbackReceiver(call, self._loop)
        self._post(
            partial(encode_request, request), key, version, timeout_ms, self._write, receiver
        )

    def post_to(
        self,
        receiver: Receiver,
        key: ApiKey,
        version: int,
        timeout_ms: int,
        encode: Encode,
        decode: Decode | None = None,
    ) -> None:
        """Write the request that `encode` returns, and give its response to `receiver` in the iteration it comes in."""
        self._post(encode, key, version, timeout_ms, self._write, receiver, decode)

    def _post(
        self,
        encode: Encode,
        key: int,
        version: int,
        timeout_ms: int,
        write: Callable[[Sequence[Any]], None],
        receiver: Receiver,
        decode: Decode | None = None,
    ) -> None:
        self._require_open()
        correlation_id = self._take_correlation_id()
        parts = encode(version, correlation_id, self._client_id)
        self.last_used = now = self._loop.time()
        deadline = now + timeout_ms / 1000
        waiting = (receiver, decode, version, deadline, timeout_ms, key, now)
        # A third of the time of a NamedTuple's constructor.
        self._waiting[correlation_id] = tuple.__new__(_Waiting, waiting)
        if self._timer is None or deadline < self._timer.when():
            self._set_timer(deadline)
        write(parts)
        if self._traffic is not None:
            self._traffic.sent(_size(parts))

    def post_unheld(
        self, request: Any, version: int | None, timeout_ms: int
    ) -> asyncio.Future[Any]:
        """Post a request of an authentication, before those that wait for its end."""
        key = _api_key_of(request)
        if version is None:
            version = self.version_of(key)
        future: asyncio.Future[Any] = self._loop.create_future()
        encode = partial(encode_request, request)
        self._post(encode, key, version, timeout_ms, self._transport.writelines, future)
        return future

    def post_without_response(self, request: Any, version: int | None = None) -> None:
        """Write a request to which the broker sends no response (Produce with acks=0)."""
        key = _api_key_of(request)
        if version is None:
            version = self.version_of(key)
        self._require_open()
        correlation_id = self._take_correlation_id()
        parts = encode_request(request, version, correlation_id, self._client_id)
        self._write(parts)
        self.last_used = self._loop.time()
        if self._traffic is not None:
            self._traffic.sent(_size(parts))

    async def send(self, request: Any, version: int | None = None, timeout_ms: int = 30_000) -> Any:
        """Post the request and wait for its response."""
        return await self.post(request, version, timeout_ms)

    def close(self) -> None:
        """Send what is queued and close; what waits fails with ConnectionError."""
        self._fail(ConnectionError(f"the connection to {self.name} was closed"))
        # asyncio's TLS forgets its protocol at a second close: an abort after that would raise (Python 3.11).
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what waits fails with ConnectionError."""
        self._fail(ConnectionError(f"the connection to {self.name} was closed"))
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Return when the connection is gone."""
        await asyncio.shield(self._closed)

    # The wire: called by the transport.

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return memory for the next bytes."""
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes; a stream that cannot be followed is closed."""
        after: list[Callable[[], None]] = []
        self._after = after
        try:
            self._reader.buffer_updated(nbytes)
        except InvalidFrameSize as error:
            self._fail(InvalidFrameSize(f"{self.name} sent a {error}"))
            self._transport.abort()
        except Exception:  # a mistake of ours: the reader must not be used again
            self._fail(ConnectionError(f"a response of {self.name} could not be taken"))
            self._transport.abort()
            raise
        finally:
            self._after = None
            for index, callback in enumerate(after):
                self._call(callback, after[index + 1 :])
            if self._answered:
                self._count_answered()  # last: nothing waits for it

    def _count_answered(self) -> None:
        assert self._traffic is not None
        for api_key, size, latency_s in self._answered:
            self._traffic.answered(api_key, size, latency_s)
        self._answered.clear()

    def _call(self, callback: Callable[[], None], later: list[Callable[[], None]]) -> None:
        """Call what was to be called after responses, as the loop calls; `later` if that ends the program."""
        try:
            callback()
        except Exception as error:  # noqa: BLE001  the loop's handler has it, as of any callback
            context = {"message": "a callback after a response failed", "exception": error}
            self._loop.call_exception_handler(context)
        except BaseException:
            for each in later:
                self._loop.call_soon(each)
            raise

    def eof_received(self) -> bool:
        """Close as well."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail everything that waits."""
        if isinstance(exc, ssl.SSLError) and not self._versions:
            # In TLS 1.3 a broker refuses a client's certificate after the client's side of the handshake is done.
            from kavka.net.tls.failures import client_failure

            self._fail(client_failure(exc, self.name))
        elif not self._versions and self._frame_size >> 16 == _TLS_ALERT:
            what = "speaks TLS, and this connection is plain text: set security.protocol=SSL"
            self._fail(InvalidFrameSize(f"{self.name} {what}, or SASL_SSL"))
        else:
            reason = f": {exc}" if exc is not None else ""
            self._fail(ConnectionError(f"the connection to {self.name} was lost{reason}"))
        if not self._closed.done():
            self._closed.set_result(None)

    @property
    def _frame_size(self) -> int:
        """The size that a half-received large frame has announced."""
        return self._reader.missing_bytes + self._reader.partial_bytes

    def pause_writing(self) -> None:
        """Make `is_writable` false; owners that bound their requests in flight need not check it."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Call the callbacks that wait for it."""
        self._is_paused = False
        self._call_waiting()

    def _write(self, parts: Sequence[Any]) -> None:
        if self._held is None:
            self._transport.writelines(parts)
        else:
            self._held.append(parts)

    # Authentication again, before the session ends (KIP-368).

    def _authenticate_after(self, again_ms: int, sasl: SaslLogin, host: str) -> None:
        """Schedule the next authentication; 0 milliseconds are never."""
        if again_ms <= 0 or self.is_closed:
            return

        def begin() -> None:
            self._held = []
            self._authenticating_again = self._loop.create_task(
                self._authenticate_again(sasl, host)
            )

        self._session_timer = self._loop.call_later(again_ms / 1000, begin)

    async def _authenticate_again(self, sasl: SaslLogin, host: str) -> None:
        """Authenticate; meanwhile requests wait. Where it fails the connection is lost, and the next says why."""
        try:
            # Responses come in order: that of a JoinGroup, which may take long, before those of the exchange.
            again_ms = await sasl.authenticate(_Unheld(self), host, _AUTHENTICATION_MS)
        except (OSError, KafkaError, CorruptFrame) as error:
            self._fail(ConnectionError(f"{self.name} did not authenticate again: {error}"))
            self._transport.abort()
            return
        held, self._held = self._held or [], None
        if not self.is_closed:
            for parts in held:
                self._transport.writelines(parts)
            self._authenticate_after(again_ms, sasl, host)

    def _call_waiting(self) -> None:
        callbacks, self._when_writable = self._when_writable, {}
        for callback in callbacks:
            callback()

    def _require_open(self) -> None:
        if self._failure is not None:
            raise ConnectionError(str(self._failure))
        if self._transport is None or self._transport.is_closing():
            raise ConnectionError(f"the connection to {self.name} is closing")

    def _take_correlation_id(self) -> int:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        return correlation_id

    def _on_frame(self, frame: memoryview) -> None:
        if len(frame) < 4:
            raise InvalidFrameSize(f"frame of {len(frame)} bytes, which holds no correlation id")
        if self._failure is not None:
            return  # closed by the receiver of the response before: nothing waits any more
        (correlation_id,) = _CORRELATION(frame)
        waiting = self._waiting.pop(correlation_id, None)
        if waiting is None:
            raise InvalidFrameSize(f"frame with the unknown correlation id {correlation_id}")
        if self._traffic is not None:
            latency_s = self._loop.time() - waiting.sent_at
            self._answered.append((waiting.api_key, len(frame), latency_s))
        receiver = waiting.receiver
        if receiver.done():
            return  # the caller has given up; the stream continues
        if waiting.decode is not None:
            response = waiting.decode(waiting.version, frame)
            if response is not None:
                receiver.set_result(response)
                return
        try:
            response_class = APIS[ApiKey(waiting.api_key)].response()
            decoded: tuple[int, Any] = decode_response(response_class, waiting.version, frame)
        except CorruptFrame as error:
            receiver.set_exception(error)
        except Exception:  # a mistake of ours
            receiver.set_exception(ConnectionError(f"a response of {self.name} was not decoded"))
            raise
        else:
            throttle_ms = getattr(decoded[1], "throttle_time_ms", 0)
            if throttle_ms > 0:
                self._throttled_until = self._loop.time() + throttle_ms / 1000
            receiver.set_result(decoded[1])

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        """Close the connection if the time of a request is over; else wait for the first that waits now."""
        self._timer = None
        if not self._waiting:
            return
        correlation_id, first = min(self._waiting.items(), key=_deadline)
        if first.deadline > self._loop.time():
            self._set_timer(first.deadline)
            return
        del self._waiting[correlation_id]
        if not first.receiver.done():
            message = f"{self.name} did not answer in {first.timeout_ms} ms"
            first.receiver.set_exception(TimeoutError(message))
        self._fail(ConnectionError(f"{self.name} was too late with another answer"))
        self._transport.abort()

    def _fail(self, failure: Exception) -> None:
        if self._failure is None:
            self._failure = failure
        if self._session_timer is not None:
            self._session_timer.cancel()
        is_lasting = isinstance(self._failure, InvalidFrameSize | TlsHandshakeFailed)
        kind = type(self._failure) if is_lasting else ConnectionError
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            if not each.receiver.done():
                each.receiver.set_exception(kind(str(self._failure)))
        self._call_waiting()

    async def _negotiate(self, timeout_ms: int) -> None:
        ours = APIS[ApiKey.API_VERSIONS]
        version = min(ours.max_version, 3)
        while True:
            request = ApiVersionsRequest(
                client_software_name=SOFTWARE[0], client_software_version=SOFTWARE[1]
            )
            response: ApiVersionsResponse = await self.send(request, version, timeout_ms)
            if response.error_code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
                break
            theirs = [a.max_version for a in response.api_keys if a.api_key == ApiKey.API_VERSIONS]
            version = min(version - 1, theirs[0]) if theirs and theirs[0] >= 0 else 0
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode.of(response.error_code), f"{self.name} refused ApiVersions")
        self.features = response
        for theirs_ in response.api_keys:
            self._learn(theirs_.api_key, theirs_.min_version, theirs_.max_version)

    def _learn(self, api_key: int, min_version: int, max_version: int) -> None:
        try:
            ours = APIS[ApiKey(api_key)]
        except (KeyError, ValueError):
            return  # an API of a newer release
        low, high = max(ours.min_version, min_version), min(ours.max_version, max_version)
        if low <= high:
            self._versions[api_key] = (low, high)
