"""A session within this process: `Registry` without a socket.

A request acts on the server at once. Its reply, and watch events, are delivered in the order in which the server made
them, in a later step of the loop.

    open --reconnect(), close()--> closed        the client ends it
    open --ZnodeServer.expire()--> closed        `session_lost` is called
    closed --reconnect()--> open, under another session id
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

from kavka.core.znode_access import AccessList
from kavka.core.znodes import (
    ANY_VERSION,
    Create,
    Delete,
    Event,
    Operation,
    SetData,
    Stat,
    ZnodeError,
)
from kavka.registry.interface import RegistryRefused, Watch
from kavka.registry.watches import WatchKind
from kavka.registry.znode_server import SessionState, ZnodeServer

T = TypeVar("T")


class LocalSession:
    """Implements `Registry` for one session."""

    def __init__(
        self,
        znode_server: ZnodeServer,
        timeout_ms: int | None = None,
        deliveries: Deliveries | None = None,
    ) -> None:
        """Begin a session; with None it never expires. `deliveries` are the way of replies and watch events."""
        self.session_lost: Callable[[], None] | None = None
        """Called once, on the loop, when the session has expired."""
        self._znode_server = znode_server
        self._timeout_ms = timeout_ms
        self._deliveries = deliveries or Deliveries(contextvars.copy_context())
        self._pending: set[asyncio.Future[Any]] = set()
        self._watches: set[_WatchNotification] = set()
        self._is_closed = False  # as this side knows
        self._session_state = self._begin()

    def _begin(self) -> SessionState:
        session_state = self._znode_server.create_session(self._timeout_ms)
        session_state.on_expired = partial(self._expired, session_state)
        return session_state

    @property
    def session_id(self) -> int:
        """The session that owns the ephemeral nodes made here."""
        return self._session_state.session_id

    # -- Registry

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Return data and facts."""

        def act() -> tuple[bytes, Stat]:
            stat = self._znode_server.tree.stat(path)
            if stat is None:
                raise RegistryRefused(ZnodeError.NO_NODE, path)
            self._watch(path, WatchKind.NODE, watch)
            return self._znode_server.tree.data(path) or b"", stat

        return await self._ask(act)

    async def stat(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Return facts, or None."""

        def act() -> Stat | None:
            self._watch(path, WatchKind.NODE, watch)
            return self._znode_server.tree.stat(path)

        return await self._ask(act)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names of the children."""

        def act() -> list[str]:
            names = self._znode_server.tree.children(path)
            if names is None:
                raise RegistryRefused(ZnodeError.NO_NODE, path)
            self._watch(path, WatchKind.CHILD, watch)
            return names

        return await self._ask(act)

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> str:
        """Make a node."""
        return (await self.multi([Create(path, data, ephemeral, sequence)]))[0]

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace a node's data."""

        def act() -> Stat:
            (result,) = self._znode_server.submit([SetData(path, data, version)], self.session_id)
            assert result.stat is not None
            return result.stat

        return await self._ask(act)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node."""
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> list[str]:
        """Apply all operations or none."""
        results = await self._ask(lambda: self._znode_server.submit(operations, self.session_id))
        return [result.path for result in results]

    async def reconnect(self) -> None:
        """Begin a new session; the one before ends, if it has not. Raise ConnectionError if the server has failed."""
        await self.close()
        self._session_state = self._begin()
        self._is_closed = False

    async def close(self) -> None:
        """End the session."""
        if not self._is_closed:
            session_state = self._session_state
            try:
                await self._ask(lambda: self._znode_server.end(session_state))
            finally:
                self._forget()

    # -- inside

    async def _ask(self, act: Callable[[], T]) -> T:
        """Call `act` on the server's side, and return its result when that is durable."""
        if self._is_closed:
            raise self._lost()
        reply = self._arrive(act)
        if self._znode_server.is_synced and self._deliveries.is_empty:
            return reply()  # the common read: no event or response precedes it
        future: asyncio.Future[T] = self._expect()
        self._resolve(future, reply)
        return await self._wait(future)

    async def _wait(self, future: asyncio.Future[T]) -> T:
        try:
            return await future
        finally:
            self._pending.discard(future)

    def _arrive(self, act: Callable[[], T]) -> Callable[[], T]:
        """Submit the operation now; return a function that returns its result, or raises."""
        if self._session_state.is_closed:
            return partial(_raise, self._lost())
        try:
            self._znode_server.check()
            result = act()
        except (RegistryRefused, ConnectionError) as error:
            return partial(_raise, error)
        return lambda: result

    def _expect(self) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending.add(future)
        return future

    def _resolve(self, future: asyncio.Future[T], reply: Callable[[], T]) -> None:
        """Send a reply down, as soon as what it is based on is synced."""

        def when_synced(failure: ConnectionError | None) -> None:
            shown = reply if failure is None else partial(_raise, failure)
            self._deliveries.put(partial(_settle, future, shown))

        self._znode_server.after_sync(when_synced)

    def _watch(self, path: str, kind: WatchKind, watch: Watch | None) -> None:
        if watch is not None:
            notification = _WatchNotification(self, watch)
            self._watches.add(notification)
            self._znode_server.watches.add(path, kind, notification)

    def _expired(self, session_state: SessionState) -> None:
        self._deliveries.put(partial(self._adopt_session, session_state))

    def _adopt_session(self, session_state: SessionState) -> None:
        """Note that a session is over, unless it is not ours any more."""
        if session_state is self._session_state and not self._is_closed:
            self._forget()
            if self.session_lost is not None:
                self.session_lost()

    def _forget(self) -> None:
        self._is_closed = True
        self._znode_server.watches.drop(self._watches)
        self._watches.clear()
        for future in self._pending:
            if not future.done():
                future.set_exception(self._lost())

    def _lost(self) -> ConnectionError:
        return ConnectionError(f"the session 0x{self.session_id:x} with the registry is over")


class _WatchNotification:
    """A watch: the callback of one call."""

    __slots__ = ("_session", "_watch")

    def __init__(self, session: LocalSession, watch: Watch) -> None:
        self._session = session
        self._watch = watch

    def may_read(self, access: AccessList) -> bool:
        """Return true: a session of this process may do everything."""
        return True

    def notify(self, event: Event) -> None:
        """Send the event down; the watch is used up."""
        self._session._watches.discard(self)
        self._session._deliveries.put(partial(self._watch, event))


class Deliveries:
    """Answers and watch events for a session, which arrive in order, in a later step of the loop."""

    def __init__(self, context: contextvars.Context) -> None:
        """`context` is the receiver's: what arrives is run in a copy of it."""
        self._context = context
        self._queue: deque[Callable[[], object]] = deque()
        self._handle: asyncio.Handle | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is on its way."""
        return not self._queue

    def put(self, action: Callable[[], object]) -> None:
        """Run `action` at the receiver."""
        self._queue.append(action)
        self._schedule()

    def _schedule(self) -> None:
        if self._queue and self._handle is None:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_soon(self._deliver, context=self._context.copy())

    def _deliver(self) -> None:
        self._handle = None
        try:
            while self._queue:
                self._queue.popleft()()
        finally:
            self._schedule()


def _raise(error: Exception) -> NoReturn:
    raise error


def _settle(future: asyncio.Future[T], reply: Callable[[], T]) -> None:
    if future.done():
        return
    try:
        result = reply()
    except (RegistryRefused, ConnectionError) as error:
        future.set_exception(error)
    else:
        future.set_result(result)
