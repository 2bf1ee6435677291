"""Request processing for one ZooKeeper client with an established session.

A request is processed when it is read. Its response, and the events of its watches, are sent in that order, after the
znode server has synced the changes that they depend on. Source: ZooKeeper's `FinalRequestProcessor`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kavka.core import znodes
from kavka.core.znode_access import ADMIN, READ, AccessList, allows, masked
from kavka.core.znodes import Event, EventType, Operation, SetAccess, Stat, ZnodeError
from kavka.registry.client_identities import ClientIdentities, LoginRefused
from kavka.registry.client_writes import (
    WRITES,
    Failure,
    Refused,
    access_list,
    failed_multi,
    multi_reply,
    operation_of,
    read_multi,
    stat_record,
    written,
)
from kavka.registry.interface import RegistryRefused
from kavka.registry.watches import WatchKind
from kavka.registry.znode_server import Result, SessionState, ZnodeServer
from kavka.wire.zookeeper.jute import Reader, append, decode
from kavka.wire.zookeeper.messages import (
    NOTIFICATION_XID,
    Acl,
    AuthRequest,
    Children2Response,
    ChildrenResponse,
    ClientInfo,
    EphemeralsResponse,
    ErrorResponse,
    GetAclResponse,
    GetDataResponse,
    NumberResponse,
    OpCode,
    PathRequest,
    PathResponse,
    PathWatchRequest,
    ReplyHeader,
    RequestHeader,
    SaslToken,
    SetAclRequest,
    SetWatches2Request,
    SetWatchesRequest,
    StatResponse,
    WatcherEvent,
    WatchTypeRequest,
    WhoAmIResponse,
)

_CONNECTED = 3  # the state that events of watches carry
_BEFORE_LOGIN = (OpCode.AUTH, OpCode.SASL, OpCode.CLOSE_SESSION)
"""Requests of a client that has yet to show an identity which is required."""
_LAST_ERRORS = (Failure.AUTH_FAILED, Failure.LOGIN_REQUIRED)
"""Errors behind which the connection is closed."""
_ADDED = {0: WatchKind.PERSISTENT, 1: WatchKind.RECURSIVE}
_REMOVED = {
    1: (WatchKind.CHILD,),
    2: (WatchKind.NODE,),
    3: tuple(WatchKind),
    4: (WatchKind.PERSISTENT,),
    5: (WatchKind.RECURSIVE,),
}


class ClientStatistics:
    """Packet counts and latencies of a server, or of one of its connections."""

    __slots__ = (
        "max_latency_ms",
        "min_latency_ms",
        "received",
        "responses",
        "sent",
        "total_latency_ms",
    )

    def __init__(self) -> None:
        """Begin at zero."""
        self.received = 0
        self.sent = 0
        """Responses and events of watches."""
        self.responses = 0
        self.min_latency_ms = self.max_latency_ms = self.total_latency_ms = 0
        """Milliseconds from requests to their replies."""

    def answered(self, took_ms: int) -> None:
        """Count a reply."""
        self.min_latency_ms = took_ms if self.responses == 0 else min(self.min_latency_ms, took_ms)
        self.max_latency_ms = max(self.max_latency_ms, took_ms)
        self.total_latency_ms += took_ms
        self.responses += 1
        self.sent += 1

    @property
    def average_latency_ms(self) -> float:
        """Return the average latency."""
        return self.total_latency_ms / max(1, self.responses)


class RequestProcessor:
    """The processor of a connection with a session; also the watcher of all its watches."""

    def __init__(
        self,
        znode_server: ZnodeServer,
        session: SessionState,
        identities: ClientIdentities,
        send: Callable[[bytearray], None],
        close: Callable[[], None],
        total: ClientStatistics,
    ) -> None:
        """`send` queues a frame without its size, `close` ends the connection after what is queued.

        `total` is the traffic of the whole server.
        """
        self.session = session
        self.in_flight = 0
        """Requests with responses that were not sent yet."""
        self.statistics = ClientStatistics()
        self._total = total
        self._znode_server = znode_server
        self._send = send
        self._close = close
        self._identities = identities
        self._is_closed = False

    def handle(self, frame: memoryview) -> None:
        """Handle a request. Raise CorruptPacket, and ConnectionError when the server has failed."""
        reader = Reader(frame)
        header = decode(RequestHeader, reader)
        if self.session.is_closed or self._is_closed:
            return  # the connection is about to be closed
        began_ms = self._znode_server.clock.tick_ms()
        self.statistics.received += 1
        self._total.received += 1
        self.in_flight += 1
        self._znode_server.notify(self.session)
        error = 0
        body: NamedTuple | bytearray | None = None
        try:
            body = self._perform(header.type, reader)
        except Refused as refused:
            error = refused.code
            if header.type == OpCode.SASL:
                body = SaslToken(None)  # Java's clients read it behind an error, too
        except RegistryRefused as refused:
            error = refused.error
        reply = bytearray()
        append(reply, ReplyHeader(header.xid, self._znode_server.tree.zxid, error))
        if isinstance(body, bytearray):
            reply += body
        elif body is not None:
            append(reply, body)
        is_last = header.type == OpCode.CLOSE_SESSION or error in _LAST_ERRORS
        self._znode_server.after_sync(partial(self._reply, reply, is_last, began_ms))

    def may_read(self, access: AccessList) -> bool:
        """Return whether the client may read a node with this access list."""
        return allows(access, READ, self._identities.all)

    def notify(self, event: Event) -> None:
        """Send an event to the client's watches."""
        if self._is_closed:
            return
        self.statistics.sent += 1
        self._total.sent += 1
        packet = bytearray()
        append(packet, ReplyHeader(NOTIFICATION_XID, -1, 0))
        append(packet, WatcherEvent(event.type.value, _CONNECTED, event.path))
        self._send(packet)

    def close(self) -> None:
        """Forget the watches: the connection is gone. The session stays."""
        self._is_closed = True
        self._znode_server.watches.drop([self])

    def _reply(
        self, reply: bytearray, is_last: bool, began_ms: int, failure: ConnectionError | None
    ) -> None:
        self.in_flight -= 1
        if self._is_closed:
            return
        if failure is None:
            took_ms = self._znode_server.clock.tick_ms() - began_ms
            self.statistics.answered(took_ms)
            self._total.answered(took_ms)
            self._send(reply)
        if is_last or failure is not None:
            self._close()

    # -- requests

    def _perform(self, kind: int, reader: Reader) -> NamedTuple | bytearray | None:
        """Handle a request, and return the response. Raise Refused, RegistryRefused, CorruptPacket."""
        if kind not in _BEFORE_LOGIN and not self._identities.may_proceed:
            raise Refused(Failure.LOGIN_REQUIRED)
        if kind in WRITES:
            request = decode(WRITES[kind], reader)
            (result,) = self._submit([operation_of(kind, request)])
            return written(kind, result)
        if kind == OpCode.MULTI:
            return self._multi(read_multi(reader, is_read=False))
        if kind == OpCode.MULTI_READ:
            return self._multi_read(read_multi(reader, is_read=True))
        if kind == OpCode.PING:
            return None
        if kind == OpCode.CLOSE_SESSION:
            self._znode_server.end(self.session)
            return None
        if kind == OpCode.WHO_AM_I:
            return WhoAmIResponse([ClientInfo(*one) for one in self._identities.proven])
        if kind not in _REQUESTS:
            raise Refused(Failure.UNIMPLEMENTED)
        record, handle = _REQUESTS[kind]
        reply: NamedTuple | None = handle(self, decode(record, reader))
        return reply

    def _submit(self, operations: list[Operation]) -> list[Result]:
        return self._znode_server.submit(operations, self.session.session_id, self._identities.all)

    def _multi(self, asked: list[tuple[int, NamedTuple]]) -> bytearray:
        operations: list[Operation] = []
        try:
            for kind, request in asked:
                operations.append(operation_of(kind, request))
            results = self._submit(operations)
        except Refused as refused:
            return failed_multi(len(asked), len(operations), refused.code)
        except RegistryRefused as refused:
            return failed_multi(len(asked), refused.at, refused.error)
        kinds = [kind for kind, _request in asked]
        return multi_reply(
            [(kind, written(kind, one)) for kind, one in zip(kinds, results, strict=True)]
        )

    def _multi_read(self, asked: list[tuple[int, NamedTuple]]) -> bytearray:
        results: list[tuple[int, NamedTuple | None]] = []
        for kind, request in asked:
            assert isinstance(request, PathWatchRequest)
            try:
                read = self._get_data if kind == OpCode.GET_DATA else self._get_children
                results.append((kind, read(request)))
            except Refused as refused:
                results.append((OpCode.ERROR, ErrorResponse(refused.code)))
        return multi_reply(results)

    # -- reading

    def _stat(self, path: str) -> Stat:
        stat = self._znode_server.tree.stat(path)
        if stat is None:
            raise Refused(ZnodeError.NO_NODE)
        return stat

    def _readable(self, path: str, permissions: int = READ) -> Stat:
        """Return the facts of a node that the client has one of these permissions for."""
        stat = self._stat(path)
        if not allows(self._znode_server.tree.access(path), permissions, self._identities.all):
            raise Refused(ZnodeError.NO_AUTH)
        return stat

    def _register_watch(self, request: PathWatchRequest, kind: WatchKind) -> Stat:
        """Return the facts of a node, which is watched from now on if the client asks for it."""
        stat = self._readable(request.path)
        if request.watch:
            self._znode_server.watches.add(request.path, kind, self)
        return stat

    def _exists(self, request: PathWatchRequest) -> StatResponse:
        if request.watch:
            self._znode_server.watches.add(request.path, WatchKind.NODE, self)
        return StatResponse(stat_record(self._stat(request.path)))

    def _get_data(self, request: PathWatchRequest) -> GetDataResponse:
        stat = self._register_watch(request, WatchKind.NODE)
        return GetDataResponse(self._znode_server.tree.data(request.path), stat_record(stat))

    def _get_children(self, request: PathWatchRequest) -> ChildrenResponse:
        self._register_watch(request, WatchKind.CHILD)
        return ChildrenResponse(self._znode_server.tree.children(request.path) or [])

    def _get_children2(self, request: PathWatchRequest) -> Children2Response:
        stat = self._register_watch(request, WatchKind.CHILD)
        return Children2Response(
            self._znode_server.tree.children(request.path) or [], stat_record(stat)
        )

    def _get_acl(self, request: PathRequest) -> GetAclResponse:
        stat = self._readable(request.path, READ | ADMIN)
        access = self._znode_server.tree.access(request.path)
        if not allows(access, ADMIN, self._identities.all):
            access = masked(access)
        return GetAclResponse([Acl(*entry) for entry in access], stat_record(stat))

    def _set_acl(self, request: SetAclRequest) -> StatResponse:
        change = SetAccess(request.path, access_list(request.acl), request.version)
        (result,) = self._submit([change])
        assert result.stat is not None
        return StatResponse(stat_record(result.stat))

    def _sync(self, request: PathRequest) -> PathResponse:
        return PathResponse(request.path)

    def _get_ephemerals(self, request: PathRequest) -> EphemeralsResponse:
        owned = self._znode_server.tree.ephemerals(self.session.session_id)
        return EphemeralsResponse([path for path in owned if path.startswith(request.path)])

    def _get_all_children_number(self, request: PathRequest) -> NumberResponse:
        self._readable(request.path)
        return NumberResponse(self._znode_server.tree.descendants(request.path))

    def _authenticate(self, request: AuthRequest) -> None:
        try:
            self._identities.add(request.scheme, request.auth or b"")
        except LoginRefused as error:
            raise Refused(Failure.AUTH_FAILED) from error

    def _log_in(self, request: SaslToken) -> SaslToken:
        try:
            return SaslToken(self._identities.respond(request.token or b""))
        except LoginRefused as error:
            raise Refused(Failure.AUTH_FAILED) from error

    # -- watches

    def _add_watch(self, request: WatchTypeRequest) -> ErrorResponse:
        if request.type not in _ADDED or not znodes.is_valid_path(request.path):
            raise Refused(ZnodeError.BAD_ARGUMENTS)
        self._znode_server.watches.add(request.path, _ADDED[request.type], self)
        return ErrorResponse(0)

    def _watches_of(self, request: WatchTypeRequest) -> list[WatchKind]:
        if request.type not in _REMOVED:
            raise Refused(ZnodeError.BAD_ARGUMENTS)
        watches = self._znode_server.watches
        found = [kind for kind in _REMOVED[request.type] if watches.has(request.path, kind, self)]
        if not found:
            raise Refused(Failure.NO_WATCHER)
        return found

    def _check_watches(self, request: WatchTypeRequest) -> None:
        self._watches_of(request)

    def _remove_watches(self, request: WatchTypeRequest) -> None:
        for kind in self._watches_of(request):
            self._znode_server.watches.remove(request.path, kind, self)

    def _set_watches2(self, request: SetWatches2Request) -> None:
        self._set_watches(SetWatchesRequest(*request[:4]))
        for path in request.persistent_watches:
            self._znode_server.watches.add(path, WatchKind.PERSISTENT, self)
        for path in request.persistent_recursive_watches:
            self._znode_server.watches.add(path, WatchKind.RECURSIVE, self)

    def _set_watches(self, request: SetWatchesRequest) -> None:
        """Set watches again after a broken connection; notify at once of events meanwhile."""
        node, child, seen = WatchKind.NODE, WatchKind.CHILD, request.relative_zxid
        for path in request.data_watches:
            stat = self._znode_server.tree.stat(path)
            is_changed = stat is not None and stat.mzxid > seen
            self._restore_watch(path, node, stat is None, is_changed, EventType.DATA_CHANGED)
        for path in request.exist_watches:
            self._restore_watch(
                path, node, False, path in self._znode_server.tree, EventType.CREATED
            )
        for path in request.child_watches:
            stat = self._znode_server.tree.stat(path)
            is_changed = stat is not None and stat.pzxid > seen
            self._restore_watch(path, child, stat is None, is_changed, EventType.CHILDREN_CHANGED)

    def _restore_watch(
        self, path: str, kind: WatchKind, is_gone: bool, is_changed: bool, change: EventType
    ) -> None:
        if is_gone or is_changed:
            if not self.may_read(self._znode_server.tree.access(path)):
                return
            event = Event(EventType.DELETED if is_gone else change, path)
            self._znode_server.after_sync(lambda failure: None if failure else self.notify(event))
        else:
            self._znode_server.watches.add(path, kind, self)


_REQUESTS: dict[int, tuple[Any, Callable[[RequestProcessor, Any], Any]]] = {
    OpCode.EXISTS: (PathWatchRequest, RequestProcessor._exists),
    OpCode.GET_DATA: (PathWatchRequest, RequestProcessor._get_data),
    OpCode.GET_CHILDREN: (PathWatchRequest, RequestProcessor._get_children),
    OpCode.GET_CHILDREN2: (PathWatchRequest, RequestProcessor._get_children2),
    OpCode.GET_ACL: (PathRequest, RequestProcessor._get_acl),
    OpCode.SET_ACL: (SetAclRequest, RequestProcessor._set_acl),
    OpCode.SYNC: (PathRequest, RequestProcessor._sync),
    OpCode.GET_EPHEMERALS: (PathRequest, RequestProcessor._get_ephemerals),
    OpCode.GET_ALL_CHILDREN_NUMBER: (PathRequest, RequestProcessor._get_all_children_number),
    OpCode.SASL: (SaslToken, RequestProcessor._log_in),
    OpCode.AUTH: (AuthRequest, RequestProcessor._authenticate),
    OpCode.ADD_WATCH: (WatchTypeRequest, RequestProcessor._add_watch),
    OpCode.CHECK_WATCHES: (WatchTypeRequest, RequestProcessor._check_watches),
    OpCode.REMOVE_WATCHES: (WatchTypeRequest, RequestProcessor._remove_watches),
    OpCode.SET_WATCHES: (SetWatchesRequest, RequestProcessor._set_watches),
    OpCode.SET_WATCHES2: (SetWatches2Request, RequestProcessor._set_watches2),
}
