"""A session within this process: `Registry` without a socket.

Requests go up a lane to the server, answers and watch events come down another; both are clear unless the session is
cut or slowed, which is how tests and the simulation break the network between a broker and its registry.

    clear --cut()--> cut --heal() in time--> clear          nothing was lost, it only waited
                      +----timeout, heal()--> over --reconnect()--> clear, under another session id
    clear --ZnodeServer.expire()--> over
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

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
    """Implements `Registry` for one session. It is silent, and may expire, only while it is `cut`."""

    def __init__(self, znode_server: ZnodeServer, timeout_ms: int | None = None) -> None:
        """Begin a session; with None it never expires."""
        self.session_lost: Callable[[], None] | None = None
        """Called once, on the loop, when the session has expired."""
        self._znode_server = znode_server
        self._timeout_ms = timeout_ms
        self._timeout_s = None if timeout_ms is None else timeout_ms / 1000
        self._up = _DelayLine(znode_server.context)
        self._down = _DelayLine(contextvars.copy_context())
        self._healed = asyncio.Event()
        self._healed.set()
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
        """Do all operations or none."""
        results = await self._ask(lambda: self._znode_server.submit(operations, self.session_id))
        return [result.path for result in results]

    async def reconnect(self) -> None:
        """Begin a new session; the one before ends, if it has not. Raise ConnectionError while the session is cut."""
        await self.close()
        await self._connected()
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

    # -- for tests and the simulation

    @property
    def delay_ms(self) -> int:
        """Latency of a request and of an answer, each; a change does not affect those in flight."""
        return self._up.delay_ms

    @delay_ms.setter
    def delay_ms(self, delay_ms: int) -> None:
        self._up.delay_ms = self._down.delay_ms = delay_ms

    def cut(self) -> None:
        """Let nothing through from now on, either way; the session expires unless it is healed in time."""
        if not self._healed.is_set():
            return
        self._up.hold()
        self._down.hold()
        self._healed.clear()
        self._znode_server.notify(self._session_state)

    def heal(self) -> None:
        """Let everything through again, what waited first; a session that has expired meanwhile learns it now."""
        self._session_state.deadline_ms = None
        self._healed.set()
        self._up.release()
        self._down.release()

    # -- inside

    async def _ask(self, act: Callable[[], T]) -> T:
        """Call `act` on the server's side, and return its result when that is durable."""
        if self._is_closed:
            raise self._lost()
        future: asyncio.Future[T] | None = None
        if self._up.is_clear:
            answer = self._arrive(act)
            if self._znode_server.is_synced and self._down.is_clear:
                return answer()  # the common read: no event or response precedes it
            future = self._expect()
            self._resolve(future, answer)
        else:
            future = self._expect()
            self._up.put(partial(self._arrive_late, future, act, self._session_state))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await future
        except TimeoutError as error:
            raise ConnectionError(f"no answer of the registry for {self._timeout_ms} ms") from error
        finally:
            self._pending.discard(future)

    def _arrive(self, act: Callable[[], T]) -> Callable[[], T]:
        """Do it, now; return what gives the result, or raises."""
        if self._session_state.is_closed:
            return partial(_raise, self._lost())
        try:
            self._znode_server.check()
            result = act()
        except (RegistryRefused, ConnectionError) as error:
            return partial(_raise, error)
        return lambda: result

    def _arrive_late(
        self, future: asyncio.Future[T], act: Callable[[], T], session_state: SessionState
    ) -> None:
        """Drop a request of an expired session."""
        lost: Callable[[], T] = partial(_raise, self._lost())
        self._resolve(future, self._arrive(act) if session_state is self._session_state else lost)

    def _expect(self) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending.add(future)
        return future

    def _resolve(self, future: asyncio.Future[T], answer: Callable[[], T]) -> None:
        """Send an answer down, as soon as what it is based on is synced."""

        def when_synced(failure: ConnectionError | None) -> None:
            shown = answer if failure is None else partial(_raise, failure)
            self._down.put(partial(_settle, future, shown))

        self._znode_server.after_sync(when_synced)

    async def _connected(self) -> None:
        if not self._healed.is_set():
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._healed.wait()
            except TimeoutError as error:
                raise ConnectionError("the registry cannot be reached") from error

    def _watch(self, path: str, kind: WatchKind, watch: Watch | None) -> None:
        if watch is not None:
            notification = _WatchNotification(self, watch)
            self._watches.add(notification)
            self._znode_server.watches.add(path, kind, notification)

    def _expired(self, session_state: SessionState) -> None:
        self._down.put(partial(self._adopt_session, session_state))

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

    def notify(self, event: Event) -> None:
        """Send the event down; the watch is used up."""
        self._session._watches.discard(self)
        self._session._down.put(partial(self._watch, event))


class _DelayLine:
    """A direction of messages: they arrive in order, in a later step of the loop, in the receiver's context."""

    def __init__(self, context: contextvars.Context) -> None:
        self.delay_ms = 0
        self._context = context
        self._queue: deque[tuple[float, Callable[[], object]]] = deque()
        self._timer: asyncio.Handle | None = None
        self._is_held = False

    @property
    def is_clear(self) -> bool:
        """Return whether the queue is empty and not held."""
        return not self._queue and not self._is_held and not self.delay_ms

    def put(self, action: Callable[[], object]) -> None:
        """Run `action` at the other end."""
        due_s = asyncio.get_running_loop().time() + self.delay_ms / 1000 if self.delay_ms else 0.0
        self._queue.append((due_s, action))
        self._arm()

    def hold(self) -> None:
        """Let nothing out."""
        self._is_held = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release(self) -> None:
        """Let out what is due."""
        self._is_held = False
        self._arm()

    def _arm(self) -> None:
        if self._is_held or self._timer is not None or not self._queue:
            return
        loop, due_s = asyncio.get_running_loop(), self._queue[0][0]
        context = self._context.copy()
        if due_s <= loop.time():
            self._timer = loop.call_soon(self._run, context=context)
        else:
            self._timer = loop.call_at(due_s, self._run, context=context)

    def _run(self) -> None:
        self._timer = None
        now_s = asyncio.get_running_loop().time()
        try:
            while self._queue and self._queue[0][0] <= now_s and not self._is_held:
                self._queue.popleft()[1]()
        finally:
            self._arm()


def _raise(error: Exception) -> NoReturn:
    raise error


def _settle(future: asyncio.Future[T], answer: Callable[[], T]) -> None:
    if future.done():
        return
    try:
        result = answer()
    except (RegistryRefused, ConnectionError) as error:
        future.set_exception(error)
    else:
        future.set_result(result)
