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

    __slots__ = ("_is_woken", "_release", "_when_woken", "is_over", "make")

    def __init__(self, make: Callable[[], Any], release: Callable[[], None]) -> None:
        """`make` gives what a handler may return, or raises; `release` is called when nobody wants it any more."""
        self.make = make
        self.is_over = False
        """Whether it was answered or given up."""
        self._release = release
        self._is_woken = False
        self._when_woken: Callable[[], None] | None = None

    def wake(self) -> None:
        """Answer in the next turn of the loop, when what woke it has been done and answered."""
        if not self._is_woken:
            self._is_woken = True
            if self._when_woken is not None:
                self._when_woken()

    def cancel(self) -> None:
        """Give it up: the connection is gone, or the broker stops."""
        if not self.is_over:
            self.is_over = True
            self._release()

    def call_when_woken(self, when_woken: Callable[[], None]) -> None:
        """Have this called once: now, if it was woken already."""
        self._when_woken = when_woken
        if self._is_woken:
            when_woken()


class ParkedAnswers:
    """Gives what was woken in one turn of the loop in the next; the answers of a connection leave together."""

    def __init__(self) -> None:
        """Begin with none."""
        self._woken: dict[Connection, list[tuple[Parked, Callable[[], None]]]] = {}

    def park(self, parked: Parked, connection: Connection, answer: Callable[[], None]) -> None:
        """Call `answer`, which answers on `connection` or not and does not raise, after `parked` is woken."""
        parked.call_when_woken(lambda: self._wake(parked, connection, answer))

    def _wake(self, parked: Parked, connection: Connection, answer: Callable[[], None]) -> None:
        if not self._woken:
            asyncio.get_running_loop().call_soon(self._give)
        self._woken.setdefault(connection, []).append((parked, answer))

    def _give(self) -> None:
        """Answer one connection after the other: who is answered first goes on while the next answer is made."""
        woken, self._woken = self._woken, {}
        for connection, answers in woken.items():
            connection.hold()
            for parked, answer in answers:
                if not parked.is_over:
                    parked.is_over = True
                    answer()
            connection.let_go()
