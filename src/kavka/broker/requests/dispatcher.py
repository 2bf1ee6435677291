"""The way of a request, from its frame to its response.

    read           the header says API and version; the message is decoded, a large one in slices of the loop's time
    authenticate   a client that is not authenticated yet may use a few APIs only
    authorise      a request that its client may not send is refused with its API's response
    quota          the request is charged
    handle         the API's handler returns a result, or the promise of one
    respond        the result is encoded and sent in its place, perhaps later (`pending_requests`), throttled if quotas
                   say so
    account        its time and its errors are counted

`requests.policies` says what decides in the stages *authenticate*, *authorise* and *quota*. A request that cannot be
understood closes its connection (`requests.failures`).
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kavka.broker.requests.connections import (
    ConnectionControl,
    ConnectionCounts,
    OpenConnection,
    OpenConnections,
)
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.counters import RequestTraffic
from kavka.broker.requests.deferred import with_result
from kavka.broker.requests.failures import RequestFailures
from kavka.broker.requests.large_requests import LargeRequest
from kavka.broker.requests.memory import (
    REQUEST_SETTING,
    RESPONSE_SETTING,
    TOTAL_SETTING,
    RequestMemory,
    RequestTooLarge,
    request_bound,
)
from kavka.broker.requests.pace import Slices
from kavka.broker.requests.policies import Policies, Quota, Refusal, plaintext_session
from kavka.broker.requests.refusals import RefusalReason, Refusals, api_of
from kavka.broker.requests.responses import Responses
from kavka.broker.requests.served_apis import SUPPORTED_APIS, Handler, ServedApi, handler_module
from kavka.net.connection import Connection, ResponseSlot
from kavka.net.event_loop import iterations_of
from kavka.net.frames import InvalidFrameSize
from kavka.values import replace
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame, SlicedDecoding, decode_front
from kavka.wire.frame import decode_request_header

if TYPE_CHECKING:
    from kavka.broker.configs.broker_config import BrokerConfig
    from kavka.broker.configs.effective_configs import EffectiveConfigs
    from kavka.broker.requests.session import Session
    from kavka.io import Clock


class Dispatcher:
    """Implements `net.connection.FrameHandler` for a broker."""

    _bind: Callable[[ModuleType], Handler]
    """Gives a handler its parts; set by `begin`, before which no request is handled."""

    def __init__(
        self,
        config: BrokerConfig,
        effective_configs: EffectiveConfigs,
        clock: Clock,
        slices: Slices,
    ) -> None:
        """Load no handler yet: each is imported at the first request for its API."""
        self._tick_ms = clock.tick_ms
        self._slices = slices
        self._iterations = iterations_of(asyncio.get_running_loop())
        self._note_work = self._iterations.works.append
        self._apis: dict[int, ServedApi] = {}
        self._has_begun = False
        self._policies = Policies()
        self._is_restricted = False
        """True if a session may begin without being authenticated, or end."""
        self._quota: Quota | None = None
        self._memory = RequestMemory(config.integer(TOTAL_SETTING))
        self._max_decoded = config.integer(REQUEST_SETTING)
        self._failures = RequestFailures()
        self._connections = OpenConnections(effective_configs, self._failures.counts)
        self._responses = Responses(
            self._failures,
            self._note_work,
            self._tick_ms,
            slices,
            config.integer(RESPONSE_SETTING),
            # Else the clock is read once for each request.
            records_times=config.values["kavka.metrics.port"] is not None,
        )
        self._deliver = self._responses.deliver
        self._pending = self._responses.pending

    def begin(self, bind: Callable[[ModuleType], Handler]) -> None:
        """Serve from now on, and what came since the listeners were bound; `bind` gives handlers their parts."""
        self._bind = bind
        self._has_begun = True
        for connection in self.connections:
            connection.unblock()

    def watch_large_requests(self, notify: Callable[[bool], None]) -> None:
        """Call with True when the first large request is in work, with False when the last one has ended."""
        self._memory.watch(notify)

    def large_work(self) -> AbstractContextManager[None]:
        """Return the context of work with as many objects as a large request has."""
        return self._memory.large_work()

    @property
    def policies(self) -> Policies:
        """The policies in force."""
        return self._policies

    def set_connection_control(self, control: ConnectionControl) -> None:
        """Ask `control` about each new connection from now on."""
        self._connections.control = control

    def set_quota(self, quota: Quota | None) -> None:
        """Throttle clients by other quotas from now on, or not at all; the other policies stay.

        Clients that are throttled by the present ones are served again.
        """
        for connection, state in self.connections.items():
            state.unmute(connection)
            connection.meter = None
        self.set_policies(replace(self._policies, quota=quota))

    def set_policies(self, policies: Policies) -> None:
        """Apply policies to connections and requests from now on; `audited` to handlers not used before."""
        self._policies = policies
        self._is_restricted = policies.open_session is not plaintext_session
        self._quota = self._responses.quota = policies.quota
        for key, api in self._apis.items():
            api.refusal = self._refusal_of(ApiKey(key))

    # -- net.tls.server.Admission

    def admit(self, listener: str, host: str) -> int | None:
        """Count a connection before its TLS handshake, and return None; else for how many milliseconds it is kept."""
        return self._connections.admit(listener, host)

    def release(self, listener: str, host: str) -> None:
        """Count a connection no more whose TLS handshake came to nothing."""
        self._connections.release(listener, host)

    # -- FrameHandler

    def opened(self, connection: Connection) -> bool:
        """Take a connection unless there are too many of all, or from its address."""
        connection.last_active_ms = self._tick_ms()
        if not self._connections.enter(connection, self._policies):
            return False
        if not self._has_begun:
            connection.block()
        return True

    def refused(self, connection: Connection, error: InvalidFrameSize) -> None:
        """Log and count that a frame is not read; its connection closes itself."""
        is_known = connection.attachment.session.is_authenticated
        limit = "socket.request.max.bytes" if is_known else "sasl.server.max.receive.size"
        remedy = f": raise {limit}" if error.is_above_limit else ""
        self._failures.close(connection, None, RefusalReason.FRAME_SIZE, f"{error}{remedy}")

    def closed(self, connection: Connection) -> None:
        """Forget a connection, and what waits there."""
        self._connections.leave(connection)

    def received(self, connection: Connection, slot: ResponseSlot, frame: memoryview) -> None:
        """Serve one request, or close the connection when it cannot be understood."""
        now = self._tick_ms()
        connection.last_active_ms = now
        self._pending.is_held = True
        session: Session | None = None
        if self._is_restricted:
            session = connection.attachment.session
            if not (session.is_authenticated or self._is_request(connection, slot, frame)):
                return
        try:
            header = decode_request_header(frame)
            api = self._apis.get(header.api_key) or self._load(header.api_key)
            version = header.api_version
            if api is None or not api.min_version <= version <= api.max_version:
                self._failures.unsupported(connection, slot, header)
                return
            api.versions[version] += 1
            context = RequestContext(api, connection, slot, header, now)
            if session is not None and not self._authenticate(context, session):
                return
            if self._quota is not None:
                self._begin_time(context, self._quota)
            self._note_work(context)
            request: Any
            if len(frame) > api.small_bytes:
                request = self._decode_large(context, frame)
                if request is None:
                    context.end_stage()
                    return
            else:
                # Kafka ignores what follows the body: librdkafka leaves three bytes behind a Metadata of all topics
                request, _ = decode_front(api.request, version, frame, header.body_position)
        except (CorruptFrame, RequestTooLarge) as error:
            self._failures.refuse(connection, api_of(frame), error)
            return
        try:  # as `_serve`, without a call more: this is done for each request
            if self._quota is not None:
                context.throttle_ms = self._quota.request_throttle_ms(context, request)
            result = None if api.refusal is None else api.refusal(context, request)
            if result is None:
                result = api.handle(context, request)
        except Exception as error:  # noqa: BLE001 - a fault in one handler must not end the broker
            self._failures.malformed(context, error)
        else:
            self._deliver(context, result)
        if context.loop_time is not None:
            context.end_stage()

    def slice_ended(self, connection: Connection) -> None:
        """Answer the requests that those of this time slice have woken, unless another connection is to be served.

        Where the connection's time is measured, it is not charged for what others wait for.
        """
        responds_now = self._iterations.has_one_event and connection.meter is None
        self._pending.end_hold(responds_now=responds_now)

    # -- inside

    def _is_request(self, connection: Connection, slot: ResponseSlot, frame: memoryview) -> bool:
        """Return whether a frame before authentication is a request: no raw token, and not one of too many."""
        session = connection.attachment.session
        if session.sasl is None:
            return True
        if not session.sasl.admits_frame():
            text = "too many requests before authentication"
            self._failures.close(connection, None, RefusalReason.UNAUTHENTICATED, text)
            return False
        if session.sasl.takes_raw_tokens:
            session.sasl.take_raw_token(connection, slot, frame)
            return False
        return True

    def _authenticate(self, context: RequestContext, session: Session) -> bool:
        """Return whether the client may send this request; close its connection if it may not."""
        if context.api.allowed_before_authentication:
            return True
        if not session.is_authenticated:
            self._failures.unauthenticated(context)
            return False
        if session.sasl is not None and session.sasl.is_expired(context.received_ms):
            self._connections.counts_of(context.connection).expired += 1
            self._failures.expired(context)
            return False
        return True

    def _begin_time(self, context: RequestContext, quota: Quota) -> None:
        """Begin to measure the loop's time for the request, if its client is charged for it."""
        context.loop_time = quota.loop_time(context)
        if context.loop_time is not None:
            context.loop_time.resume()
        elif context.connection.meter is not None:
            context.connection.meter.discard()

    def _serve(self, context: RequestContext, request: Any) -> None:
        """Take a request that is decoded through the rest of its way."""
        api = context.api
        try:
            if self._quota is not None:
                context.throttle_ms = self._quota.request_throttle_ms(context, request)
            result = None if api.refusal is None else api.refusal(context, request)
            if result is None:
                result = api.handle(context, request)
        except Exception as error:  # noqa: BLE001 - a fault in one handler must not end the broker
            self._failures.malformed(context, error)
            return
        self._deliver(context, result)

    def _refusal_of(self, key: ApiKey) -> Refusal | None:
        """Return what refuses requests of an API; None when all of them are handled."""
        return None if self._policies.refusal_of is None else self._policies.refusal_of(key)

    def _decode_large(self, context: RequestContext, frame: memoryview) -> Any:
        """Return the request when one slice of time was enough; else None, and continue in later iterations."""
        api, header = context.api, context.header
        decoding = SlicedDecoding(api.request, context.version, frame, header.body_position)
        if api.carries_records and decoding.step():
            return decoding.message  # large by its records: it goes on as a small one
        context.large = large = LargeRequest(
            api.key.name,
            decoding,
            len(frame),
            request_bound(len(frame), api.bound),
            self._slices.pace(),
            self._memory,
        )
        context.pace = large.pace
        if large.decode_slice():
            return large.take_message()
        context.block_connection()
        # It is given up with its connection, even while it waits for memory.
        step = self._decode_on(context, large)
        self._responses.pending.run_step(context, step, ends_with_connection=True)
        return None

    async def _decode_on(self, context: RequestContext, large: LargeRequest) -> None:
        await large.take_memory(large.max_weight)
        try:
            while not large.decode_slice():
                await large.pace.rest()
                if not context.connection.is_open:
                    context.finish()
                    return
        except (CorruptFrame, RequestTooLarge) as error:
            self._failures.refuse(context.connection, context.api.key, error)
            context.finish()
            return
        # Less than was thought, and as much again for what the handler makes of it.
        large.give_memory(max(0, large.memory - 2 * large.weight))
        self._serve(context, large.take_message())

    def _load(self, key: int) -> ServedApi | None:
        """Import the handler of an API at its first request; None when this broker does not serve it."""
        if key not in SUPPORTED_APIS:
            return None
        api_key = ApiKey(key)
        try:
            handle = self._bind(importlib.import_module(handler_module(api_key)))
        except Exception as error:  # noqa: BLE001 - a fault in one handler must not end the broker
            # It is made again at the next request: the reason may be gone.
            return ServedApi(api_key, self._failures.unmade(error), self._max_decoded)
        if self._policies.audited is not None:
            handle = self._policies.audited(api_key, handle)
        handle = with_result(handle)
        api = self._apis[key] = ServedApi(api_key, handle, self._max_decoded)
        api.refusal = self._refusal_of(api_key)
        return api

    # -- for metrics, periodic tasks and tests

    @property
    def connections(self) -> dict[Connection, OpenConnection]:
        """The open connections."""
        return self._connections.open

    @property
    def connection_counts(self) -> dict[str, ConnectionCounts]:
        """The counters of connections, by listener."""
        return self._connections.counts

    @property
    def refusals(self) -> Refusals:
        """The counters of requests that were refused or given up."""
        return self._failures.counts

    def traffic(self) -> dict[ApiKey, RequestTraffic]:
        """Return the counters of each API that had a request so far."""
        return {api.key: api.traffic for api in self._apis.values()}

    def in_second_stage(self) -> list[RequestContext]:
        """Return the requests with coroutine handlers that have not returned."""
        return list(self._responses.pending.tasks.values())

    def requests_received(self) -> int:
        """Return how many requests were understood since the start."""
        return sum(sum(api.versions) for api in self._apis.values())

    async def stop(self) -> None:
        """Cancel what still waits and close all connections."""
        self._responses.pending.stop()
        for connection, state in list(self.connections.items()):
            for each in list(state.waiting):
                each.cancel()
            connection.close()
