"""From a frame to the handler of its API, and from the handler's answer to a frame.

What cannot be understood closes the connection, as in Kafka: a frame that does not decode, a key that nobody serves,
a version out of range. The one exception is ApiVersions, whose unknown versions are answered in version 0.

A frame above `_SMALL_BYTES` is decoded in slices, by `broker.large_requests`, and so is encoded what may be large
(decision 029).
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.broker.connection_limits import ConnectionLimits
from kavka.broker.deferred_response import DeferredResponse, DeferredResponses
from kavka.broker.large_requests import (
    Encoding,
    LargeRequest,
    encode_slice,
    release_records,
)
from kavka.broker.pace import UNPACED, Pace
from kavka.broker.refusals import FailureReason, RefusalReason, Refusals, api_of
from kavka.broker.request_memory import (
    ANSWER_SETTING,
    REQUEST_SETTING,
    TOTAL_SETTING,
    RequestMemory,
    RequestTooLarge,
    api_bound,
    request_bound,
)
from kavka.broker.traffic import RequestTraffic, error_finder, error_steps
from kavka.io import Sendable
from kavka.net.connection import Connection, ResponseSlot
from kavka.net.event_loop import turns_of
from kavka.net.frames import InvalidFrameSize
from kavka.wire.apis import APIS, Api, ApiKey
from kavka.wire.codec import CorruptFrame, decode_front
from kavka.wire.frame import (
    RequestHeader,
    decode_request_header,
    encode_response,
    encode_response_in_slices,
)

if TYPE_CHECKING:
    from kavka.broker.broker import Broker

log = logging.getLogger(__name__)

SUPPORTED_APIS: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.LEADER_AND_ISR: "leader_and_isr",
    ApiKey.STOP_REPLICA: "stop_replica",
    ApiKey.UPDATE_METADATA: "update_metadata",
    ApiKey.CONTROLLED_SHUTDOWN: "controlled_shutdown",
    ApiKey.OFFSET_COMMIT: "offset_commit",
    ApiKey.OFFSET_FETCH: "offset_fetch",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "join_group",
    ApiKey.HEARTBEAT: "heartbeat",
    ApiKey.LEAVE_GROUP: "leave_group",
    ApiKey.SYNC_GROUP: "sync_group",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.LIST_GROUPS: "list_groups",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets_to_txn",
    ApiKey.END_TXN: "end_txn",
    ApiKey.WRITE_TXN_MARKERS: "write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "txn_offset_commit",
    ApiKey.DESCRIBE_ACLS: "describe_acls",
    ApiKey.CREATE_ACLS: "create_acls",
    ApiKey.DELETE_ACLS: "delete_acls",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.ELECT_LEADERS: "elect_leaders",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "describe_client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "alter_client_quotas",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "describe_user_scram_credentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "alter_user_scram_credentials",
    ApiKey.ALTER_PARTITION: "alter_partition",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.UPDATE_FEATURES: "update_features",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "list_transactions",
    ApiKey.ALLOCATE_PRODUCER_IDS: "allocate_producer_ids",
}
"""The APIs that this broker serves and advertises, and the module of `broker.api` that handles each."""

_WAIT_FOR_MEMBERS = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""The APIs whose second stage waits for other clients: their requests are not queued, as in Kafka."""

_SMALL_BYTES: Final = 2048
_SMALL_OF_RECORDS: Final = 64 * 1024
"""Of Produce and Fetch: nearly all of a Produce is records, which are not decoded."""
_ANSWERED_IN_PARALLEL: Final = frozenset(
    (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
)
"""APIs that wait for others: while a large request of them waits, its connection is served on.

Behind a large request of another API its connection waits until the answer is there, as in Apache Kafka behind any."""
_SMALL_ANSWERS: Final = frozenset(
    (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.FIND_COORDINATOR,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ALTER_PARTITION,
    )
)
"""APIs whose answer to a small request is small."""

Handler = Callable[["Broker", "RequestContext", Any], Any]
"""Returns the response, an awaitable of it, `DeferredResponse` for one that comes by a call, None for no answer at
all, or the frame of the answer as a bytearray.
"""


class RequestContext:
    """A request's header, connection and times, for its handler."""

    __slots__ = ("connection", "header", "large", "local_ms", "received_ms")

    def __init__(self, connection: Connection, header: RequestHeader, received_ms: int) -> None:
        """`received_ms` is of the monotonic clock."""
        self.connection = connection
        self.header = header
        self.received_ms = received_ms
        self.local_ms = -1
        """Milliseconds of the first stage; -1 until there is a second."""
        self.large: LargeRequest | None = None
        """What is known of a request that is large."""

    @property
    def pace(self) -> Pace:
        """How long the request may keep the loop to itself. What is small is served in one turn."""
        return UNPACED if self.large is None else self.large.pace

    @property
    def began_ms(self) -> int:
        """When the work on it began: the name under which `net.event_loop` knows it."""
        return self.received_ms

    @property
    def version(self) -> int:
        """The version of the API that the client speaks."""
        return self.header.api_version

    @property
    def client_id(self) -> str:
        """The client's name for itself; empty when it gave none."""
        return self.header.client_id or ""

    @property
    def listener_name(self) -> str:
        """The listener through which the client came."""
        return self.connection.listener_name

    def begin_wait(self) -> None:
        """Stop counting frame and memory of a large request: its handler waits as long as the client wishes.

        To be called when the handler has dropped what it does not need for the response.
        """
        if self.large is not None:
            self.large.give_memory()
            self.connection.release(self.large.slot)


class Answering(NamedTuple):
    """The last step of a second stage: the response is encoded and sent."""

    context: RequestContext
    began_ms: int


class _ApiHandler:
    """An API whose handler is imported. Slots, for they are read for each request."""

    __slots__ = (
        "bound",
        "handle",
        "immediate",
        "in_parallel",
        "key",
        "max_version",
        "may_answer_large",
        "min_version",
        "request",
        "response",
        "small_bytes",
        "traffic",
        "versions",
    )

    def __init__(self, api: Api, handle: Handler, most_decoded: int) -> None:
        self.min_version = api.min_version
        self.max_version = api.max_version
        self.request: type = api.request()
        self.response: type = api.response()
        self.handle = handle
        self.key = api.key
        carries_records = api.key in (ApiKey.PRODUCE, ApiKey.FETCH)
        self.small_bytes = _SMALL_OF_RECORDS if carries_records else _SMALL_BYTES
        self.bound = api_bound(api.key, most_decoded)
        self.in_parallel = api.key in _ANSWERED_IN_PARALLEL
        self.may_answer_large = api.key not in _SMALL_ANSWERS
        self.traffic = traffic = RequestTraffic(api.max_version + 1)
        self.versions = traffic.versions
        self.immediate = traffic.immediate


class ConnectionCounts:
    """Counters of the connections of one listener since the start."""

    __slots__ = ("bytes_received", "bytes_sent", "closed", "opened")

    def __init__(self) -> None:
        """Begin with none."""
        self.opened = 0
        self.closed = 0
        self.bytes_sent = self.bytes_received = 0
        """By those that are closed."""


class Dispatcher:
    """Implements `net.connection.FrameHandler` for a broker."""

    def __init__(self, broker: Broker) -> None:
        """Load no handler yet: each is imported when it is first asked for."""
        self._broker = broker
        self._tick_ms = broker.clock.tick_ms
        self._slices = broker.slices
        self._note_work = turns_of(asyncio.get_running_loop()).works.append
        self._records_times = broker.config.values["kavka.metrics.port"] is not None
        """True if request times are measured for metrics; else the clock is read once for each request."""
        self._handlers: dict[int, _ApiHandler] = {}
        # Dicts, not sets: the order in which they are cancelled can be seen.
        self._tasks: dict[asyncio.Future[Any], RequestContext] = {}
        self.connections: dict[Connection, dict[asyncio.Future[Any] | DeferredResponse, None]] = {}
        """All that are open, each with what waits there and need not be done when it is gone."""
        self.connection_counts: dict[str, ConnectionCounts] = {}
        """By listener."""
        self.refusals = Refusals()
        self._limits = ConnectionLimits(broker.configs)
        self._deferred = DeferredResponses()
        self._has_begun = False
        integer = broker.config.integer
        self._memory = RequestMemory(integer(TOTAL_SETTING))
        self._most_decoded = integer(REQUEST_SETTING)
        self._most_answered = integer(ANSWER_SETTING)

    def begin(self) -> None:
        """Serve from now on, and what came since the listeners were bound."""
        self._has_begun = True
        for connection in self.connections:
            connection.unblock()

    # -- FrameHandler

    def opened(self, connection: Connection) -> bool:
        """Take a connection unless there are too many of all, or from its address."""
        connection.last_active_ms = self._broker.clock.tick_ms()
        refusal = self._limits.enter(connection.peer_host)
        if refusal is not None:
            log.warning("connection refused peer=%s reason=%s", connection.peer_host, refusal)
            self.refusals.connections[refusal] += 1
            return False
        self.connections[connection] = {}
        if not self._has_begun:
            connection.block()
        self._counts_of(connection).opened += 1
        return True

    def refused(self, connection: Connection, error: InvalidFrameSize) -> None:
        """Say and count that a frame is not read; its connection closes the connection."""
        remedy = ": raise socket.request.max.bytes" if error.is_above_limit else ""
        self._close(connection, None, RefusalReason.FRAME_SIZE, f"{error}{remedy}")

    def closed(self, connection: Connection) -> None:
        """Forget a connection, and what waits there: fetches, answers to what is done."""
        for waiting in self.connections.pop(connection, ()):
            waiting.cancel()
        self._limits.leave(connection.peer_host)
        counts = self._counts_of(connection)
        counts.closed += 1
        counts.bytes_sent += connection.bytes_sent
        counts.bytes_received += connection.bytes_received

    def received(self, connection: Connection, slot: ResponseSlot, frame: memoryview) -> None:
        """Serve one request, or close the connection when it cannot be understood."""
        now = self._tick_ms()
        connection.last_active_ms = now
        try:
            header = decode_request_header(frame)
            handler = self._handlers.get(header.api_key) or self._load(header.api_key)
            version = header.api_version
            if handler is None or not handler.min_version <= version <= handler.max_version:
                self._unsupported(connection, slot, header)
                return
            handler.versions[version] += 1
            context = RequestContext(connection, header, now)
            self._note_work(context)
            request: Any
            if len(frame) > handler.small_bytes:
                request = self._decode_large(handler, context, slot, frame)
                if request is None:
                    return
            else:
                # Kafka ignores what follows the body: librdkafka leaves three bytes behind a Metadata of all topics
                request, _ = decode_front(handler.request, version, frame, header.body_position)
        except (CorruptFrame, RequestTooLarge) as error:
            self._refuse(connection, api_of(frame), error)
            return
        try:  # as `_handle`, without a call more: this is done for each request
            result = handler.handle(self._broker, context, request)
        except Exception as error:  # noqa: BLE001 - a fault in one handler must not end the broker
            self._malformed(context, error)
            return
        self._deliver(handler, context, slot, result)

    # -- inside

    def _handle(
        self, handler: _ApiHandler, context: RequestContext, slot: ResponseSlot, request: Any
    ) -> None:
        try:
            result = handler.handle(self._broker, context, request)
        except Exception as error:  # noqa: BLE001 - as above
            self._malformed(context, error)
            return
        self._deliver(handler, context, slot, result)

    def _decode_large(
        self, handler: _ApiHandler, context: RequestContext, slot: ResponseSlot, frame: memoryview
    ) -> Any:
        """Return the request when one slice of time was enough; else None, and go on in turns of the loop to come."""
        context.large = large = LargeRequest(
            handler.key.name,
            handler.request,
            context.header,
            frame,
            request_bound(len(frame), handler.bound),
            self._slices.pace(),
            self._memory,
            slot,
        )
        if large.decode_slice():
            return large.take_message()
        self._block(context)
        task = self._start(context, self._decode_on(handler, context, large, slot))
        # It is given up with its connection, even while it waits for memory.
        waiting = self.connections.get(context.connection, {})
        waiting[task] = None
        task.add_done_callback(lambda done: waiting.pop(done, None))
        return None

    async def _decode_on(
        self, handler: _ApiHandler, context: RequestContext, large: LargeRequest, slot: ResponseSlot
    ) -> None:
        await large.take_memory(large.most_weight)
        try:
            while not large.decode_slice():
                await large.pace.rest()
                if not context.connection.is_open:
                    self._finish(context)
                    return
        except (CorruptFrame, RequestTooLarge) as error:
            self._refuse(context.connection, handler.key, error)
            self._finish(context)
            return
        # Less than was thought, and as much again for what the handler makes of it.
        large.give_memory(max(0, large.memory - 2 * large.weight))
        self._handle(handler, context, slot, large.take_message())

    def _block(self, context: RequestContext) -> None:
        """Have the connection's further requests wait for a large one."""
        assert context.large is not None
        if not context.large.blocks_connection:
            context.large.blocks_connection = True
            context.connection.block()

    def _unblock(self, context: RequestContext) -> None:
        """Serve what came behind a large request."""
        if context.large is not None and context.large.blocks_connection:
            context.large.blocks_connection = False
            context.connection.unblock()

    def _finish(self, context: RequestContext) -> None:
        """Give back what a large request has taken: it was answered or given up."""
        large = context.large
        if large is None:
            return
        large.give_memory()
        self._unblock(context)

    def _start(
        self, context: RequestContext, work: Coroutine[Any, Any, None], response: Any = None
    ) -> asyncio.Future[None]:
        """Go on with a large request in a task, which sends the `response` unless it is cancelled or fails."""
        task = asyncio.ensure_future(work)
        self._tasks[task] = context

        def done(finished: asyncio.Future[None]) -> None:
            self._tasks.pop(finished, None)
            if finished.cancelled():
                _release(context, response)
                context.connection.abort()
                self._finish(context)
            elif (error := finished.exception()) is not None:
                _release(context, response)
                self._failed(context, error)

        task.add_done_callback(done)
        return task

    def _deliver(
        self, handler: _ApiHandler, context: RequestContext, slot: ResponseSlot, result: Any
    ) -> None:
        """Send what a handler returned, now or when it is there."""
        if type(result) is bytearray:
            context.connection.answer(slot, (result,))
            if context.large is not None:
                self._finish(context)
        elif type(result) is handler.response:
            self._answer(handler, context, slot, result)
        elif result is None:
            self._send(context, slot, ())
        else:
            if self._records_times and context.local_ms < 0:
                context.local_ms = self._tick_ms() - context.received_ms
            if context.large is not None and handler.in_parallel:
                self._unblock(context)  # a Produce that is not appended yet blocks it itself
            if type(result) is DeferredResponse:
                self._defer(handler, context, slot, result)
            else:
                self._await(handler, context, slot, result)
            return
        if not self._records_times:
            return
        took_ms = self._tick_ms() - context.received_ms
        if context.local_ms >= 0:
            handler.traffic.record_delayed(took_ms, context.local_ms)
        elif took_ms:
            handler.immediate.record(took_ms)
        else:
            handler.immediate.recent[0] += 1  # nearly always: this is done for each request

    def _count_late(self, handler: _ApiHandler, context: RequestContext) -> None:
        """Count an answer that was given by the second stage."""
        if self._records_times:
            took_ms = self._tick_ms() - context.received_ms
            handler.traffic.record_delayed(took_ms, context.local_ms)

    def _counts_of(self, connection: Connection) -> ConnectionCounts:
        name = connection.listener_name
        counts = self.connection_counts.get(name)
        if counts is None:
            counts = self.connection_counts[name] = ConnectionCounts()
        return counts

    def traffic(self) -> dict[ApiKey, RequestTraffic]:
        """Return the counters of each API that was asked for so far."""
        return {ApiKey(key): handler.traffic for key, handler in self._handlers.items()}

    def in_second_stage(self) -> list[RequestContext]:
        """Return the requests whose handlers are coroutines that have not returned."""
        return list(self._tasks.values())

    def requests_received(self) -> int:
        """Return how many requests were understood since the start."""
        return sum(sum(handler.versions) for handler in self._handlers.values())

    def _defer(
        self,
        handler: _ApiHandler,
        context: RequestContext,
        slot: ResponseSlot,
        deferred: DeferredResponse,
    ) -> None:
        waiting = self.connections.get(context.connection)
        if waiting is None:  # it was closed while the request was handled in slices
            deferred.cancel()
            self._finish(context)
            return
        waiting[deferred] = None
        context.connection.release(slot)  # what waits keeps no frame
        memory = 0 if context.large is None else context.large.memory
        if memory:
            self._finish(context)

        def answer() -> None:
            waiting.pop(deferred, None)
            if memory:
                work = _build_within(context, memory, deferred)
                self._await(handler, context, slot, work)
                return
            try:
                self._deliver(handler, context, slot, deferred.build_response())
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(context, error)

        self._deferred.add(deferred, context.connection, answer)

    def _load(self, key: int) -> _ApiHandler | None:
        """Import the handler of an API at its first request; None when this broker does not serve it."""
        if key not in SUPPORTED_APIS:
            return None
        api_key = ApiKey(key)
        api = APIS[api_key]
        module = importlib.import_module(f"kavka.broker.api.{SUPPORTED_APIS[api_key]}")
        handler = _ApiHandler(api, module.handle, self._most_decoded)
        self._handlers[key] = handler
        return handler

    def _unsupported(
        self, connection: Connection, slot: ResponseSlot, header: RequestHeader
    ) -> None:
        """Close the connection; only a version of ApiVersions from the future gets an answer."""
        if header.api_key == ApiKey.API_VERSIONS:
            from kavka.broker.api.api_versions import unsupported

            connection.answer(slot, encode_response(unsupported(), 0, header.correlation_id))
        else:
            what = f"API key {header.api_key} version {header.api_version}"
            key = ApiKey(header.api_key) if header.api_key in APIS else None
            self._close(connection, key, RefusalReason.UNSUPPORTED, f"not served: {what}")

    def _refuse(
        self, connection: Connection, key: ApiKey | None, error: CorruptFrame | RequestTooLarge
    ) -> None:
        reason = error.reason if isinstance(error, RequestTooLarge) else RefusalReason.CORRUPT
        self._close(connection, key, reason, str(error))

    def _close(
        self, connection: Connection, key: ApiKey | None, reason: RefusalReason, text: str
    ) -> None:
        log.warning("connection closed peer=%s reason=%s", connection.peer_host, text)
        self.refusals.refused[key, reason] += 1
        connection.abort()

    def _malformed(self, context: RequestContext, error: Exception) -> None:
        """A handler failed in a way it did not foresee: the client learns by the loss of its connection."""
        header = context.header
        if isinstance(error, RequestTooLarge):
            self._refuse(context.connection, ApiKey(header.api_key), error)
        else:
            self._count_failed(header, FailureReason.INTERNAL_ERROR)
            what = "request failed api=%d version=%d"
            log.error(what, header.api_key, header.api_version, exc_info=error)
            context.connection.abort()
        self._finish(context)

    def _failed(self, context: RequestContext, error: Any) -> None:
        """The second stage of a handler failed: because the world did (a full disk, no registry), or because we did."""
        header = context.header
        if isinstance(error, OSError):
            self._count_failed(header, FailureReason.IO_ERROR)
            what = "request given up api=%d version=%d reason=%s"
            log.warning(what, header.api_key, header.api_version, error)
            context.connection.abort()
            self._finish(context)
        else:
            self._malformed(context, error)

    def _count_failed(self, header: RequestHeader, reason: FailureReason) -> None:
        self.refusals.failed[ApiKey(header.api_key), reason] += 1

    def _await(
        self,
        handler: _ApiHandler,
        context: RequestContext,
        slot: ResponseSlot,
        result: Awaitable[Any],
    ) -> None:
        future = asyncio.ensure_future(result)
        self._tasks[future] = context
        connection = context.connection
        waiting = self.connections.get(connection, {})
        if context.header.api_key == ApiKey.FETCH:
            waiting[future] = None
        elif context.header.api_key in _WAIT_FOR_MEMBERS:
            connection.release(slot)
            context.begin_wait()
        else:
            slot.outlives_connection = True
        if context.large is not None and not handler.in_parallel:
            self._block(context)

        def done(finished: asyncio.Future[Any]) -> None:
            self._tasks.pop(finished, None)
            self._note_work(Answering(context, self._tick_ms()))
            waiting.pop(finished, None)
            connection.release(slot)
            if finished.cancelled():
                context.connection.abort()
                self._finish(context)
            elif (error := finished.exception()) is not None:
                self._failed(context, error)
            elif type(finished.result()) is DeferredResponse:
                self._defer(handler, context, slot, finished.result())
            elif finished.result() is None:
                self._send(context, slot, ())
                self._count_late(handler, context)
            elif type(finished.result()) is bytearray:
                self._send(context, slot, (finished.result(),))
                self._count_late(handler, context)
            else:
                self._answer(handler, context, slot, finished.result())
                self._count_late(handler, context)

        future.add_done_callback(done)

    def _answer(
        self, handler: _ApiHandler, context: RequestContext, slot: ResponseSlot, response: Any
    ) -> None:
        if context.large is not None and context.large.memory:
            work = self._answer_later(handler, context, slot, response)
            self._start(context, work, response)
            return
        if handler.may_answer_large or context.large is not None:
            self._answer_in_slices(handler, context, slot, response)
            return
        header = context.header
        _count_errors(handler, response)
        try:
            parts = encode_response(response, header.api_version, header.correlation_id)
        except Exception as error:  # noqa: BLE001 - as above
            _release(context, response)
            self._malformed(context, error)
            return
        context.connection.answer(slot, parts)

    async def _answer_later(
        self, handler: _ApiHandler, context: RequestContext, slot: ResponseSlot, response: Any
    ) -> None:
        """Answer a request that took long, after others had their turn."""
        await context.pace.rest()
        self._answer_in_slices(handler, context, slot, response)

    def _answer_in_slices(
        self, handler: _ApiHandler, context: RequestContext, slot: ResponseSlot, response: Any
    ) -> None:
        """Answer now, or in turns of the loop to come when there is much to encode."""
        header, pace = context.header, self._slices.pace()
        steps = encode_response_in_slices(response, header.api_version, header.correlation_id)
        try:
            parts = encode_slice(steps, pace, handler.key, self._most_answered)
        except Exception as error:  # noqa: BLE001 - as above
            _release(context, response)
            self._malformed(context, error)
            return
        if parts is None:
            work = self._encode_on(handler, context, slot, response, steps, pace)
            self._start(context, work, response)
        else:
            _count_errors(handler, response)
            self._send(context, slot, parts)

    async def _encode_on(
        self,
        handler: _ApiHandler,
        context: RequestContext,
        slot: ResponseSlot,
        response: Any,
        steps: Encoding,
        pace: Pace,
    ) -> None:
        while True:
            await pace.rest()
            if not context.connection.is_open:
                _release(context, response)
                self._finish(context)
                return
            parts = encode_slice(steps, pace, handler.key, self._most_answered)
            if parts is not None:
                await _count_errors_in_slices(handler, response, pace)
                self._send(context, slot, parts)
                return

    def _send(self, context: RequestContext, slot: ResponseSlot, parts: Sequence[Sendable]) -> None:
        context.connection.answer(slot, parts)
        if context.large is not None:
            self._finish(context)

    async def stop(self) -> None:
        """Cancel what still waits and close all connections."""
        for task in list(self._tasks):
            task.cancel()
        for connection, waiting in list(self.connections.items()):
            for each in list(waiting):
                each.cancel()
            connection.close()


def _release(context: RequestContext, response: Any) -> None:
    """Release the files of a response that is not sent: only one to a Fetch has any."""
    if response is not None and context.header.api_key == ApiKey.FETCH:
        release_records(response)


async def _build_within(context: RequestContext, memory: int, deferred: DeferredResponse) -> Any:
    """Build the response of a large request once there is memory for it again."""
    assert context.large is not None
    await context.large.take_memory(memory)
    result = deferred.build_response()
    return await result if isinstance(result, Awaitable) else result


def _count_errors(handler: _ApiHandler, response: Any) -> None:
    find_errors = error_finder(handler.response)
    if find_errors is not None:
        find_errors(response, handler.traffic.count_error)


async def _count_errors_in_slices(handler: _ApiHandler, response: Any, pace: Pace) -> None:
    """Count the errors of a response that was encoded in slices: it may have a million of them."""
    steps = error_steps(handler.response)
    if steps is None:
        return
    for _ in steps(response, handler.traffic.count_error):
        if pace.is_over():
            await pace.rest()
