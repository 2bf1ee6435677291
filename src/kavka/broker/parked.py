"""Answers that come later, when something has happened: bytes for a fetch, replicas for a produce.

    handler --Parked--> Dispatcher --> ParkedAnswers     waits
    purgatory, session --wake-->                         in the next turn: make, answer, and one send a connection

An awaitable would do, in more turns of the loop: its task is woken in the next one, and its answer sent in the one
after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kavka.net.connection import Connection


class Parked:
    """An answer that comes when somebody calls `wake`."""

    __slots__ = ("_is_woken", "_make", "_release", "_when_woken", "is_over")

    def __init__(self, make: Callable[[], Any], release: Callable[[], None]) -> None:
        """`make` gives what a handler may return, or raises; `release` is called when nobody wants it any more."""
        self._make: Callable[[], Any] | None = make
        self.is_over = False
        """Whether it was answered or given up."""
        self._release = release
        self._is_woken = False
        self._when_woken: Callable[[], None] | None = None

    def wake(self) -> None:
        """Answer in the next turn of the loop, when what woke it has been done and answered."""
        if not self._is_woken:
            self._is_woken = True
            self._tell()

    def cancel(self) -> None:
        """Give it up: the connection is gone, or the broker stops."""
        if not self.is_over:
            self.is_over = True
            self._make = self._when_woken = None
            self._release()

    def call_when_woken(self, when_woken: Callable[[], None]) -> None:
        """Have this called once: now, if it was woken already."""
        self._when_woken = when_woken
        if self._is_woken:
            self._tell()

    def _tell(self) -> None:
        # Who is told knows this object, as what it makes may: kept, they would be left to the garbage collector.
        when_woken, self._when_woken = self._when_woken, None
        if when_woken is not None:
            when_woken()

    def answer(self) -> Any:
        """Return what `make` gives, or raise what it raises; once."""
        self.is_over = True
        make, self._make = self._make, None
        assert make is not None, "a parked answer is made once"
        return make()


class ParkedAnswers:
    """Gives what was woken in one turn of the loop in the next; the answers of a connection leave together."""

    def __init__(self) -> None:
        """Begin with none."""
        self._woken: dict[Connection, list[tuple[Parked, Callable[[], None]]]] = {}

    def park(self, parked: Parked, connection: Connection, answer: Callable[[], None]) -> None:
        """Call `answer`, which answers on `connection` or not, after `parked` is woken."""
        parked.call_when_woken(lambda: self._wake(parked, connection, answer))

    def _wake(self, parked: Parked, connection: Connection, answer: Callable[[], None]) -> None:
        woken = self._woken.get(connection)
        if woken is None:
            # One connection after the other: who is answered first goes on while the next answer is made.
            asyncio.get_running_loop().call_soon(self._give, connection)
            woken = self._woken[connection] = []
        woken.append((parked, answer))

    def _give(self, connection: Connection) -> None:
        connection.hold()
        try:
            for parked, answer in self._woken.pop(connection):
                if not parked.is_over:
                    answer()
        finally:
            connection.let_go()
