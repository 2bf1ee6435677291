"""From a frame to the handler of its API, and from the handler's answer to a frame.

What cannot be understood closes the connection, as in Kafka: a frame that does not decode, a key that nobody serves,
a version out of range. The one exception is ApiVersions, whose unknown versions are answered in version 0.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kavka.net.connection import Connection, Slot
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.codec import CorruptFrame, decode_front
from kavka.wire.frame import RequestHeader, decode_request_header, encode_response

if TYPE_CHECKING:
    from kavka.broker.broker import Broker

log = logging.getLogger(__name__)

SERVED: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
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
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
}
"""The APIs that this broker serves and advertises, and the module of `broker.api` that handles each."""

Handler = Callable[["Broker", "RequestContext", Any], Any]


class RequestContext:
    """What a handler may know of a request besides its body."""

    __slots__ = ("connection", "header", "received_ms")

    def __init__(self, connection: Connection, header: RequestHeader, received_ms: int) -> None:
        """`received_ms` is of the monotonic clock."""
        self.connection = connection
        self.header = header
        self.received_ms = received_ms

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


class _Served(NamedTuple):
    """An API whose handler is imported."""

    min_version: int
    max_version: int
    request: type
    response: type
    handle: Handler


class Dispatcher:
    """Implements `net.connection.FrameHandler` for a broker."""

    def __init__(self, broker: Broker) -> None:
        """Load no handler yet: each is imported when it is first asked for."""
        self._broker = broker
        self._served: dict[int, _Served] = {}
        # Dicts, not sets: the order in which they are cancelled can be seen.
        self._tasks: dict[asyncio.Future[Any], None] = {}
        self.connections: dict[Connection, dict[asyncio.Future[Any], None]] = {}
        """All that are open, each with its fetches that wait."""
        self._held: list[tuple[Connection, Slot, memoryview]] | None = []

    def begin(self) -> None:
        """Serve from now on; what came since the listeners were bound is served first."""
        held, self._held = self._held or [], None
        for connection, slot, frame in held:
            self.received(connection, slot, frame)

    # -- FrameHandler

    def opened(self, connection: Connection) -> bool:
        """Take a connection unless there are too many of all, or from its address."""
        configs = self._broker.configs
        connection.last_active_ms = self._broker.clock.tick_ms()
        if len(self.connections) >= configs.broker_integer("max.connections"):
            log.warning("connection refused peer=%s reason=max.connections", connection.peer_host)
            return False
        limit = configs.broker_integer("max.connections.per.ip")
        if limit < len(self.connections) + 1:
            same = sum(1 for other in self.connections if other.peer_host == connection.peer_host)
            if same >= limit:
                log.warning(
                    "connection refused peer=%s reason=max.connections.per.ip", connection.peer_host
                )
                return False
        self.connections[connection] = {}
        return True

    def closed(self, connection: Connection) -> None:
        """Forget a connection, and its fetches: they change nothing, so nobody misses them."""
        for fetch in self.connections.pop(connection, ()):
            fetch.cancel()

    def received(self, connection: Connection, slot: Slot, frame: memoryview) -> None:
        """Serve one request, or close the connection when it cannot be understood."""
        if self._held is not None:
            self._held.append((connection, slot, frame))
            return
        now = self._broker.clock.tick_ms()
        connection.last_active_ms = now
        try:
            header = decode_request_header(frame)
            served = self._served.get(header.api_key) or self._load(header.api_key)
            version = header.api_version
            if served is None or not served.min_version <= version <= served.max_version:
                self._not_served(connection, slot, header)
                return
            # Kafka ignores what follows the body: librdkafka leaves three bytes behind a Metadata of all topics
            request: Any
            request, _ = decode_front(served.request, version, frame[header.body_position :])
        except CorruptFrame as error:
            self._refuse(connection, str(error))
            return
        context = RequestContext(connection, header, now)
        try:
            result = served.handle(self._broker, context, request)
        except Exception:  # noqa: BLE001 - a fault in one handler must not end the broker
            self._broken(connection, header)
            return
        if type(result) is served.response:
            self._answer(context, slot, result)
        elif result is None:
            connection.answer(slot, ())
        else:
            self._await(context, slot, result)

    # -- inside

    def _load(self, key: int) -> _Served | None:
        """Import the handler of an API at its first request; None when this broker does not serve it."""
        if key not in SERVED:
            return None
        api_key = ApiKey(key)
        api = APIS[api_key]
        module = importlib.import_module(f"kavka.broker.api.{SERVED[api_key]}")
        served = _Served(
            api.min_version, api.max_version, api.request(), api.response(), module.handle
        )
        self._served[key] = served
        return served

    def _not_served(self, connection: Connection, slot: Slot, header: RequestHeader) -> None:
        """Close the connection; only a version of ApiVersions from the future gets an answer."""
        if header.api_key == ApiKey.API_VERSIONS:
            from kavka.broker.api.api_versions import unsupported

            connection.answer(slot, encode_response(unsupported(), 0, header.correlation_id))
        else:
            what = f"API key {header.api_key} version {header.api_version}"
            self._refuse(connection, f"not served: {what}")

    def _refuse(self, connection: Connection, reason: str) -> None:
        log.warning("connection closed peer=%s reason=%s", connection.peer_host, reason)
        connection.abort()

    def _broken(self, connection: Connection, header: RequestHeader) -> None:
        """A handler failed in a way it did not foresee: the client learns by the loss of its connection."""
        log.exception("request failed api=%d version=%d", header.api_key, header.api_version)
        connection.abort()

    def _failed(self, context: RequestContext, error: BaseException) -> None:
        """The second stage of a handler failed: because the world did (a full disk, no registry), or because we did."""
        header = context.header
        if isinstance(error, OSError):
            what = "request given up api=%d version=%d reason=%s"
            log.warning(what, header.api_key, header.api_version, error)
        else:
            what = "request failed api=%d version=%d"
            log.error(what, header.api_key, header.api_version, exc_info=error)
        context.connection.abort()

    def _await(self, context: RequestContext, slot: Slot, result: Awaitable[Any]) -> None:
        future = asyncio.ensure_future(result)
        self._tasks[future] = None
        fetches = self.connections.get(context.connection, {})
        if context.header.api_key == ApiKey.FETCH:
            fetches[future] = None

        def done(finished: asyncio.Future[Any]) -> None:
            self._tasks.pop(finished, None)
            fetches.pop(finished, None)
            if finished.cancelled():
                context.connection.abort()
            elif (error := finished.exception()) is not None:
                self._failed(context, error)
            elif finished.result() is None:
                context.connection.answer(slot, ())
            else:
                self._answer(context, slot, finished.result())

        future.add_done_callback(done)

    def _answer(self, context: RequestContext, slot: Slot, response: Any) -> None:
        header = context.header
        try:
            parts = encode_response(response, header.api_version, header.correlation_id)
        except Exception:  # noqa: BLE001 - as above
            self._broken(context.connection, header)
            return
        context.connection.answer(slot, parts)

    async def stop(self) -> None:
        """Cancel what still waits and close all connections."""
        for task in list(self._tasks):
            task.cancel()
        for connection in list(self.connections):
            connection.close()
