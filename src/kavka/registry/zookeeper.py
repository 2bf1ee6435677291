"""The registry of a cluster in production: Apache ZooKeeper, over kavka's own asyncio client (decision 005).

    connected --connection breaks--> waiting --a server answers--> connected    the same session; missed events follow
                                        +----session timeout-----> lost --reconnect()--> connected, a new session

A write may have been applied although its connection broke. It is tried again on the next connection, and a refusal of
the second try counts as success when the tree is as the first one would have left it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from kavka.core import znodes
from kavka.core.znode_access import OPEN, AccessList
from kavka.core.znodes import (
    ANY_VERSION,
    Create,
    Delete,
    Event,
    EventType,
    Operation,
    SetData,
    Stat,
    ZnodeError,
    size_of,
)
from kavka.io import Network, Random
from kavka.metrics.timings import Timings
from kavka.registry.client_watches import ClientWatches
from kavka.registry.interface import RegistryRefused, Watch, ensure_path
from kavka.registry.watches import WatchKind
from kavka.registry.zookeeper_access import ZooKeeperAccess, ZooKeeperLoginRefused, refusal
from kavka.registry.zookeeper_connection import ServerRefused, ZooKeeperConnection, parse_connect
from kavka.registry.zookeeper_multi import (
    acl_records,
    create_request,
    encode_multi,
    read_multi,
    read_stat,
)
from kavka.wire.zookeeper.jute import Reader, decode, encode
from kavka.wire.zookeeper.messages import (
    Acl,
    ChildrenResponse,
    ClientInfo,
    ConnectRequest,
    EphemeralsResponse,
    GetAclResponse,
    GetDataResponse,
    OpCode,
    PathRequest,
    PathResponse,
    PathVersionRequest,
    PathWatchRequest,
    SetAclRequest,
    SetDataRequest,
    SetWatchesRequest,
    StatResponse,
    WatcherEvent,
    WatchTypeRequest,
    WhoAmIResponse,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

_LARGEST_PACKET = 0xFFFFF
"""`jute.maxbuffer` as it comes: ZooKeeper drops the connection on which more arrives."""
_HEADER_BYTES = 8
"""Bytes before the body of a request in its packet."""
_FIRST_PAUSE_S = 0.05
_MAX_PAUSE_S = 1.0
_MIN_ATTEMPT_S = 1.0
_CLOSE_S = 3.0
_WATCHES_IN_A_PACKET = 500
_NO_PASSWORD = bytes(16)
_WATCH_TYPES = {(False, True): 1, (True, False): 2, (True, True): 3}
"""REMOVE_WATCHES by whether it is about the node and about its children."""


class ZooKeeperUnreachable(ConnectionError):
    """No member of the ensemble answered in time; the message names the addresses."""


class ZooKeeperRegistry:
    """Implements `Registry` over one ZooKeeper session at a time."""

    def __init__(
        self,
        network: Network,
        random: Random,
        connect: str,
        session_timeout_ms: int,
        access: ZooKeeperAccess,
    ) -> None:
        """Use `open` instead. Raise ValueError when `connect` cannot be read."""
        self._access = access
        self._login_refused: ZooKeeperLoginRefused | None = None
        self._network = network
        self._random = random
        self._members, self._chroot = parse_connect(connect)
        self._connect_string = connect
        self._timeout_ms = session_timeout_ms
        self._negotiated_timeout_ms = session_timeout_ms
        self._server: tuple[str, int] | None = None
        """The server that answered last."""
        self._last_failure = ""
        """The reason that the last silent server could not be reached."""
        self._connection: ZooKeeperConnection | None = None
        self._connected = asyncio.Event()
        self._connecting: asyncio.Task[None] | None = None
        self._is_closed = True
        self._password = _NO_PASSWORD
        self._last_zxid = 0
        self._watches = ClientWatches()
        self.connects = self.disconnects = self.expirations = 0
        """Numbers of connections made, connections lost and sessions expired since the start."""
        self.login_refusals = 0
        self.latencies = Timings()
        """Durations from request to reply."""
        self.session_id = 0
        self.session_lost: Callable[[], None] | None = None

    @classmethod
    async def open(
        cls,
        network: Network,
        random: Random,
        connect: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        access: ZooKeeperAccess | None = None,
    ) -> ZooKeeperRegistry:
        """Begin a session at `host:port,host:port/chroot`, making the chroot where it is missing.

        Raise ZooKeeperUnreachable, ZooKeeperLoginRefused, and ValueError when the addresses cannot be read.
        """
        chosen = ZooKeeperAccess() if access is None else access
        registry = cls(network, random, connect, session_timeout_ms, chosen)
        try:
            async with asyncio.timeout(connection_timeout_ms / 1000):
                await registry.reconnect()
        except TimeoutError as error:
            await registry._forget_connection()
            raise ZooKeeperUnreachable(
                f"no ZooKeeper answers at {connect} within {connection_timeout_ms} ms "
                "(zookeeper.connect, zookeeper.connection.timeout.ms)"
                + (f": {registry._last_failure}" if registry._last_failure else "")
            ) from error
        await registry._make_chroot()
        return registry

    async def _make_chroot(self) -> None:
        chroot, self._chroot = self._chroot, ""
        if chroot:
            await ensure_path(self, chroot)
        self._chroot = chroot

    @property
    def is_connected(self) -> bool:
        """Return whether a server of the ensemble is connected."""
        return self._connection is not None

    # -- the session

    async def reconnect(self) -> None:
        """Open a new session; the one before is closed, if it is not over and the server is reachable.

        Waits until a member answers: the caller bounds the time.
        """
        await (self._forget_connection() if self._is_closed else self.close())
        self.session_id, self._password, self._last_zxid = 0, _NO_PASSWORD, 0
        self._watches.clear()
        self._is_closed = False
        self._connect_again()
        await self._connected.wait()
        if self._is_closed:
            refused, self._login_refused = self._login_refused, None
            raise refused or self._lost()

    async def close(self) -> None:
        """End the session: its ephemeral nodes go. Without a connection the ensemble ends it after its timeout."""
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await connection.request(OpCode.CLOSE_SESSION)
            except (OSError, ServerRefused) as error:
                log.info("registry session not closed cleanly reason=%s", error)
        await self._forget_connection()

    async def _forget_connection(self) -> None:
        self._connected.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        task, self._connecting = self._connecting, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _connect_again(self) -> None:
        self._connecting = asyncio.get_running_loop().create_task(self._find_server())

    async def _find_server(self) -> None:
        """Connect to the servers one after the other until one answers; last to the lost one, which may be silent."""
        pause_s = _FIRST_PAUSE_S
        members = sorted(
            self._members, key=lambda member: (member == self._server, self._random.random())
        )
        while True:
            for host, port in members:
                try:
                    await self._handshake(host, port)
                except ZooKeeperLoginRefused as error:
                    self.login_refusals += 1
                    log.error("ZooKeeper login refused at=%s:%d reason=%s", host, port, error)
                    if not self.session_id:  # nothing depends on it yet: the caller decides
                        self._login_refused, self._is_closed = error, True
                        self._connected.set()
                        return
                except OSError as error:
                    self._last_failure = str(error) or "it did not answer"
                    log.info(
                        "ZooKeeper server not reached at=%s:%d reason=%s",
                        host,
                        port,
                        self._last_failure,
                    )
                else:
                    return
            await asyncio.sleep(pause_s * (0.5 + self._random.random()))
            pause_s = min(pause_s * 2, _MAX_PAUSE_S)

    async def _handshake(self, host: str, port: int) -> None:
        request = ConnectRequest(
            0, self._last_zxid, self._timeout_ms, self.session_id, self._password
        )
        attempt_s = max(_MIN_ATTEMPT_S, self._negotiated_timeout_ms / 1000 / len(self._members))
        async with asyncio.timeout(attempt_s):
            connection, response = await ZooKeeperConnection.open(
                self._network, host, port, request, self._on_event, self._connection_lost
            )
            try:
                if response.timeout_ms > 0:
                    await self._access.prove(connection, self._random)
            except BaseException:
                connection.abort()
                raise
        if response.timeout_ms <= 0:
            connection.abort()
            self._session_expired()
            return
        # By bytes right behind the greeting, before there was a listener, or during the login.
        if connection.is_lost:
            raise ConnectionError("the connection broke right behind its greeting")
        if not self.session_id:
            log.info(
                "registry session begun session=0x%x at=%s:%d timeout_ms=%d",
                response.session_id,
                host,
                port,
                response.timeout_ms,
            )
        self.session_id = response.session_id
        self._password = response.password or _NO_PASSWORD
        connection.latencies = self.latencies
        self._negotiated_timeout_ms, self._server = response.timeout_ms, (host, port)
        self._connection = connection
        self.connects += 1
        self._watch_again(connection)
        self._connected.set()

    def _watch_again(self, connection: ZooKeeperConnection) -> None:
        """Set the watches again at the server, which reports the events since the last response."""
        lists = [[self._to_server_path(path) for path in paths] for paths in self._watches.paths()]
        step = _WATCHES_IN_A_PACKET
        while any(lists):
            now = [paths[:step] for paths in lists]
            lists = [paths[step:] for paths in lists]
            request = SetWatchesRequest(self._last_zxid, *now)
            connection.restore_watches(request).add_done_callback(_ignore)

    def _connection_lost(self, connection: ZooKeeperConnection) -> None:
        if connection is not self._connection:
            return
        self._last_zxid = max(self._last_zxid, connection.last_zxid)
        self._connection = None
        self._connected.clear()
        if not self._is_closed:
            self.disconnects += 1
            log.warning("registry connection lost session=0x%x", self.session_id)
            self._connect_again()

    def _session_expired(self) -> None:
        log.warning("registry session expired session=0x%x", self.session_id)
        self._is_closed = True
        self.expirations += 1
        self._connected.set()  # wakes waiting calls, which then fail
        if self.session_lost is not None:
            self.session_lost()

    # -- watches

    def _on_event(self, event: WatcherEvent) -> None:
        try:
            kind = EventType(event.type)
        except ValueError:
            return  # the state of the connection, which its owner knows
        client_event = Event(kind, self._to_client_path(event.path))
        for watch in self._watches.triggered(client_event):
            watch(client_event)

    def watches(self, path: str) -> tuple[bool, bool]:
        """Return whether a node and whether its children are watched."""
        return self._watches.has(path, WatchKind.NODE), self._watches.has(path, WatchKind.CHILD)

    async def unwatch(
        self, path: str, *, node: bool, children: bool, even_offline: bool = False
    ) -> None:
        """Take back the watches of a node, of its children, or both; `even_offline` does not wait for a connection."""
        if self.is_connected or not even_offline:
            request = WatchTypeRequest(self._to_server_path(path), _WATCH_TYPES[node, children])
            await self._read_and_watch(OpCode.REMOVE_WATCHES, request, path)
        if node:
            self._watches.drop(path, WatchKind.NODE)
        if children:
            self._watches.drop(path, WatchKind.CHILD)

    # -- reading

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Return data and facts."""
        data, stat = await self.get_as_stored(path, watch)
        return data or b"", stat

    async def get_as_stored(
        self, path: str, watch: Watch | None = None
    ) -> tuple[bytes | None, Stat]:
        """Return data and facts as `get` does, but None for a node without data."""
        with self._watches.reading(path, WatchKind.NODE, watch):
            reader = await self._read(OpCode.GET_DATA, path, watch)
            self._watches.node_read(path, exists=True)
        response = decode(GetDataResponse, reader)
        return response.data, read_stat(response.stat)

    async def stat(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Return facts, or None."""
        with self._watches.reading(path, WatchKind.NODE, watch):
            try:
                reader = await self._read(OpCode.EXISTS, path, watch)
            except RegistryRefused as refused:
                if refused.error is not ZnodeError.NO_NODE:
                    raise
                self._watches.node_read(path, exists=False)
                return None
            self._watches.node_read(path, exists=True)
        return read_stat(decode(StatResponse, reader).stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names of the children, sorted."""
        with self._watches.reading(path, WatchKind.CHILD, watch):
            reader = await self._read(OpCode.GET_CHILDREN, path, watch)
        return sorted(decode(ChildrenResponse, reader).children)

    async def acl(self, path: str) -> tuple[list[Acl], Stat]:
        """Return the access list of a node, and its stat."""
        reader = await self._read_and_watch(
            OpCode.GET_ACL, PathRequest(self._to_server_path(path)), path
        )
        response = decode(GetAclResponse, reader)
        return response.acl, read_stat(response.stat)

    async def ephemerals(self, prefix: str) -> list[str]:
        """Return the ephemeral nodes of this session with this path prefix, sorted."""
        request = PathRequest(self._to_server_path(prefix))
        reader = await self._read_and_watch(OpCode.GET_EPHEMERALS, request, prefix)
        found = decode(EphemeralsResponse, reader).ephemerals
        return sorted(
            self._to_client_path(path) for path in found if path.startswith(f"{self._chroot}/")
        )

    async def identities(self) -> list[ClientInfo]:
        """Return the identities of this session at the server."""
        return decode(
            WhoAmIResponse, await self._read_and_watch(OpCode.WHO_AM_I, None, "/")
        ).client_info

    async def sync(self, path: str) -> None:
        """Wait until the member has what the leader of the ensemble has."""
        await self._read_and_watch(OpCode.SYNC, PathRequest(self._to_server_path(path)), path)

    async def _read(self, operation: OpCode, path: str, watch: Watch | None) -> Reader:
        """Ask with the watch registered already (`ClientWatches.asking`)."""
        request = PathWatchRequest(self._to_server_path(path), watch is not None)
        return await self._read_and_watch(operation, request, path)

    async def _read_and_watch(
        self, operation: OpCode, request: NamedTuple | None, path: str
    ) -> Reader:
        reader: Reader = await self._retried(lambda live: live.request(operation, request), path)
        return reader

    # -- writing

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        access: AccessList = OPEN,
    ) -> str:
        """Make a node and return its path; it has the access list of its path unless one is given.

        After a broken connection a sequence node is created again: there may be two then, as with every ZooKeeper
        client.
        """
        operation = Create(path, data, ephemeral, sequence, access)
        request = create_request(operation, self._to_server_path(path), self._access.access_of)
        reader = await self._change(OpCode.CREATE, request, operation)
        return path if reader is None else self._to_client_path(decode(PathResponse, reader).path)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace a node's data."""
        request = SetDataRequest(self._to_server_path(path), data, version)
        reader = await self._change(OpCode.SET_DATA, request, SetData(path, data, version))
        if reader is None:
            return (await self.get(path))[1]
        return read_stat(decode(StatResponse, reader).stat)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node without children."""
        request = PathVersionRequest(self._to_server_path(path), version)
        await self._change(OpCode.DELETE, request, Delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[str]:
        """Apply all operations or none.

        BAD_ARGUMENTS, at the largest operation, refuses what is larger than a packet of ZooKeeper (1 MiB).
        """
        body = encode_multi(operations, self._to_server_path, self._access.access_of)
        _check_size(body, operations)

        async def commit(live: ZooKeeperConnection) -> list[str]:
            return read_multi(
                await live.request_encoded(OpCode.MULTI, body), operations, self._to_client_path
            )

        made = await self._written(commit, operations)
        return [operation.path for operation in operations] if made is None else made

    # -- access

    async def set_access(self, path: str, access: AccessList, version: int = ANY_VERSION) -> Stat:
        """Replace a node's access list if it was changed `version` times."""
        request = SetAclRequest(self._to_server_path(path), acl_records(access), version)
        reader = await self._read_and_watch(OpCode.SET_ACL, request, path)
        return read_stat(decode(StatResponse, reader).stat)

    async def secure(self, path: str) -> None:
        """Replace a node's access list by the one that this client sets for new nodes at its path."""
        await self.set_access(path, self._access.access_list(path))

    async def add_identity(self, scheme: str, proof: bytes) -> None:
        """Show another identity, which holds for the connections to come as well. Raise ZooKeeperLoginRefused."""
        await self._access.add(await self._ready(), scheme, proof)

    # -- calling

    async def _change(
        self, kind: OpCode, request: NamedTuple, operation: Operation
    ) -> Reader | None:
        """Write one operation; None when an earlier try with a broken connection had been applied."""
        body = encode(request)
        _check_size(body, [operation])
        return await self._written(lambda live: live.request_encoded(kind, body), [operation])

    async def _written(
        self, ask: Callable[[ZooKeeperConnection], Awaitable[T]], operations: Sequence[Operation]
    ) -> T | None:
        """Write; None when an earlier try with a broken connection had been applied."""

        async def is_done() -> bool:
            for operation in operations:
                if not await self._is_applied(operation):
                    return False
            return True

        reply: T | None = await self._retried(ask, operations[0].path, is_done)
        return reply

    async def _retried(
        self,
        ask: Callable[[ZooKeeperConnection], Awaitable[T]],
        path: str,
        is_done: Callable[[], Awaitable[bool]] | None = None,
    ) -> Any:
        """Ask until a member answers. Raise RegistryRefused, or ConnectionError when the session is over."""
        has_broken = False
        session_id = self.session_id
        while True:
            live = await self._ready()
            if session_id not in (0, self.session_id):
                raise _session_expired(
                    session_id
                )  # what it rests on may have gone with its session
            try:
                return await ask(live)
            except ConnectionError:
                has_broken = True
            except ServerRefused as error:
                if error.code == ZnodeError.SESSION_EXPIRED:
                    raise self._lost() from error
                if has_broken and is_done is not None and await is_done():
                    return None
                raise refusal(error, path) from error
            except RegistryRefused:  # an operation of a multi
                if has_broken and is_done is not None and await is_done():
                    return None
                raise

    async def _is_applied(self, operation: Operation) -> bool:
        """Return whether the tree is as an operation leaves it; True for a check, which leaves no trace."""
        if isinstance(operation, znodes.Check | znodes.SetAccess):
            return True
        try:
            data, stat = await self.get(operation.path)
        except RegistryRefused as refused:
            if refused.error is ZnodeError.NO_NODE:
                return isinstance(operation, Delete)
            raise
        if isinstance(operation, Delete) or data != (operation.data or b""):
            return False
        if isinstance(operation, SetData):
            return operation.version in (ANY_VERSION, stat.version - 1)
        owner = self.session_id if operation.ephemeral else 0
        return not operation.sequence and stat.ephemeral_owner == owner

    async def _ready(self) -> ZooKeeperConnection:
        """Wait for a connection, as long as a session lasts without one."""
        if self._connection is None and not self._is_closed:
            try:
                async with asyncio.timeout(self._timeout_ms / 1000):
                    while self._connection is None and not self._is_closed:
                        await self._connected.wait()
            except TimeoutError as error:
                raise ZooKeeperUnreachable(
                    f"no ZooKeeper answered at {self._connect_string} for {self._timeout_ms} ms"
                ) from error
        if self._is_closed or self._connection is None:
            raise self._lost()
        return self._connection

    def _lost(self) -> ConnectionError:
        return _session_expired(self.session_id)

    def _to_server_path(self, path: str) -> str:
        if not self._chroot:
            return path
        return self._chroot if path == "/" else self._chroot + path

    def _to_client_path(self, path: str) -> str:
        return path.removeprefix(self._chroot) or "/"


def _session_expired(session_id: int) -> ConnectionError:
    return ConnectionError(f"the session 0x{session_id:x} with ZooKeeper is over")


def _check_size(body: bytearray, operations: Sequence[Operation]) -> None:
    """Refuse a packet that no connection would outlive: it would be sent again on every next one."""
    if _HEADER_BYTES + len(body) > _LARGEST_PACKET:
        raise RegistryRefused(ZnodeError.BAD_ARGUMENTS, max(operations, key=size_of).path)


def _ignore(done: asyncio.Future[Reader]) -> None:
    """Retrieve the outcome: a connection that broke again is replaced, and sets its watches again."""
    if not done.cancelled():
        done.exception()
