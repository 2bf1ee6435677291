"""Deferred responses: fetches that wait for bytes, produces that wait for replicas.

    handler --Parked--> Dispatcher --> DeferredResponses     waits
    purgatory, session --wake-->                         in the next turn: make, answer, and one send a connection

An awaitable would do, in more turns of the loop: its task is woken in the next one, and its answer sent in the one
after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kavka.net.connection import Connection


class DeferredResponse:
    """A response that is built after `wake`."""

    __slots__ = ("_build", "_is_woken", "_on_wake", "_release", "is_done")

    def __init__(self, build: Callable[[], Any], release: Callable[[], None]) -> None:
        """`make` returns a handler's result, or raises; `release` is called when the response is no longer needed."""
        self._build: Callable[[], Any] | None = build
        self.is_done = False
        """True once it was answered or cancelled."""
        self._release = release
        self._is_woken = False
        self._on_wake: Callable[[], None] | None = None

    def wake(self) -> None:
        """Respond in the next iteration of the loop, after the code that called this."""
        if not self._is_woken:
            self._is_woken = True
            self._notify()

    def cancel(self) -> None:
        """Cancel it: the connection is gone, or the broker stops."""
        if not self.is_done:
            self.is_done = True
            self._build = self._on_wake = None
            self._release()

    def call_on_wake(self, callback: Callable[[], None]) -> None:
        """Have this called once: now, if it was woken already."""
        self._on_wake = callback
        if self._is_woken:
            self._notify()

    def _notify(self) -> None:
        # Who is told knows this object, as what it makes may: kept, they would be left to the garbage collector.
        callback, self._on_wake = self._on_wake, None
        if callback is not None:
            callback()

    def build_response(self) -> Any:
        """Return what `make` gives, or raise what it raises; once."""
        self.is_done = True
        build, self._build = self._build, None
        assert build is not None, "a parked answer is made once"
        return build()


class DeferredResponses:
    """Sends the responses woken in one iteration of the loop in the next; those of a connection leave together."""

    def __init__(self) -> None:
        """Begin with none."""
        self._woken: dict[Connection, list[tuple[DeferredResponse, Callable[[], None]]]] = {}

    def add(
        self, deferred: DeferredResponse, connection: Connection, answer: Callable[[], None]
    ) -> None:
        """Call `answer`, which answers on `connection` or not, after `parked` is woken."""
        deferred.call_on_wake(lambda: self._wake(deferred, connection, answer))

    def _wake(
        self, deferred: DeferredResponse, connection: Connection, answer: Callable[[], None]
    ) -> None:
        woken = self._woken.get(connection)
        if woken is None:
            # One connection after the other: who is answered first goes on while the next answer is made.
            asyncio.get_running_loop().call_soon(self._send_woken, connection)
            woken = self._woken[connection] = []
        woken.append((deferred, answer))

    def _send_woken(self, connection: Connection) -> None:
        connection.cork()
        try:
            for deferred, answer in self._woken.pop(connection):
                if not deferred.is_done:
                    answer()
        finally:
            connection.uncork()
