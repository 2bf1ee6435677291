"""A session with a registry of the same process, between which and its server the network is slow or cut.

Requests travel up a delay line to the server, answers and watch events down another.

    clear --cut()--> cut --heal() in time--> clear          nothing was lost, it only waited
                      +----timeout, heal()--> closed --reconnect()--> clear, under another session id
    any --crash()--> closed, and the server expires the session after its timeout
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kavka.registry.local_session import Deliveries, LocalSession
from kavka.registry.znode_server import SessionState, ZnodeServer

T = TypeVar("T")


class FaultySession(LocalSession):
    """Implements `Registry` for one session. It is silent, and may expire, only while it is cut or after a crash."""

    def __init__(self, znode_server: ZnodeServer, timeout_ms: int | None = None) -> None:
        """Begin a session; with None it never expires."""
        self._up = _DelayLine(znode_server.context)
        self._down = _DelayLine(contextvars.copy_context())
        self._healed = asyncio.Event()
        self._healed.set()
        self._timeout_s = None if timeout_ms is None else timeout_ms / 1000
        super().__init__(znode_server, timeout_ms, self._down)

    @property
    def delay_ms(self) -> int:
        """Latency of a request and of a reply, each; a change does not affect those in flight."""
        return self._up.delay_ms

    @delay_ms.setter
    def delay_ms(self, delay_ms: int) -> None:
        self._up.delay_ms = self._down.delay_ms = delay_ms

    def cut(self) -> None:
        """Block messages in both directions; the session expires unless it is healed in time."""
        if not self._healed.is_set():
            return
        self._up.hold()
        self._down.hold()
        self._healed.clear()
        self._znode_server.notify(self._session_state)

    def heal(self) -> None:
        """Deliver messages again, those that waited first; a session that has expired meanwhile is notified now."""
        self._session_state.deadline_ms = None
        self._healed.set()
        self._up.release()
        self._down.release()

    def crash(self) -> None:
        """End the client's side as the crash of its process does: the server notices nothing before the timeout."""
        self.cut()
        self._forget()

    async def reconnect(self) -> None:
        """Begin a new session; the one before ends, if it has not. Raise ConnectionError while the session is cut."""
        await self.close()
        if not self._healed.is_set():
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._healed.wait()
            except TimeoutError as error:
                raise ConnectionError("the registry cannot be reached") from error
        await super().reconnect()

    async def _ask(self, act: Callable[[], T]) -> T:
        """Call `act` on the server's side when the request arrives there."""
        if self._up.is_empty or self._is_closed:
            return await super()._ask(act)
        future: asyncio.Future[T] = self._expect()
        self._up.put(partial(self._arrive_late, future, act, self._session_state))
        return await self._wait(future)

    async def _wait(self, future: asyncio.Future[T]) -> T:
        """Wait for a reply. Raise ConnectionError after the timeout."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await super()._wait(future)
        except TimeoutError as error:
            raise ConnectionError(f"no answer of the registry for {self._timeout_ms} ms") from error

    def _arrive_late(
        self, future: asyncio.Future[T], act: Callable[[], T], session_state: SessionState
    ) -> None:
        """Drop a request of an expired session."""

        def refuse() -> T:
            raise self._lost()

        self._resolve(future, self._arrive(act) if session_state is self._session_state else refuse)


class _DelayLine(Deliveries):
    """A direction of messages, which may be slow or held."""

    def __init__(self, context: contextvars.Context) -> None:
        super().__init__(context)
        self.delay_ms = 0
        self._due: deque[float] = deque()
        """Times of the loop at which the queued messages arrive."""
        self._is_held = False

    @property
    def is_empty(self) -> bool:
        """Return whether a message would arrive at once."""
        return not self._queue and not self._is_held and not self.delay_ms

    def put(self, action: Callable[[], object]) -> None:
        """Run `action` at the receiver, after the delay."""
        self._due.append(
            asyncio.get_running_loop().time() + self.delay_ms / 1000 if self.delay_ms else 0.0
        )
        super().put(action)

    def hold(self) -> None:
        """Hold all messages back."""
        self._is_held = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def release(self) -> None:
        """Send the messages that are due."""
        self._is_held = False
        self._schedule()

    def _schedule(self) -> None:
        if self._is_held or self._handle is not None or not self._queue:
            return
        loop, due_s = asyncio.get_running_loop(), self._due[0]
        if due_s <= loop.time():
            super()._schedule()
        else:
            self._handle = loop.call_at(due_s, self._deliver, context=self._context.copy())

    def _deliver(self) -> None:
        self._handle = None
        now_s = asyncio.get_running_loop().time()
        try:
            while self._queue and self._due[0] <= now_s and not self._is_held:
                self._due.popleft()
                self._queue.popleft()()
        finally:
            self._schedule()
