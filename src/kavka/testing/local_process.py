"""A process of a local cluster: a loop on a thread of its own, which can stand still and die."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kavka.net.event_loop import MeasuredEventLoop
from kavka.testing.client_link import ClientLinks
from kavka.testing.cut_network import CutNetwork, Links

T = TypeVar("T")

_TIMEOUT_S = 60


class LocalProcess:
    """A loop on a thread, which can stand still and die."""

    def __init__(self, links: Links, number: int, clients: ClientLinks | None = None) -> None:
        """Start, as process `number` of a network; `clients` are those of its port for them."""
        self.network = CutNetwork(links, number, clients)
        self.loop = MeasuredEventLoop()
        self._may_run = threading.Event()
        self._may_run.set()
        self._thread = threading.Thread(target=self._main, name=f"broker-{number}", daemon=True)
        self._thread.start()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_TIMEOUT_S)

    def ask(self, question: Callable[[], T]) -> T:
        """Call a function there and wait for its result."""

        async def run() -> T:
            return question()

        return self.call(run())

    def pause(self) -> None:
        """Stand still from the next iteration of the loop on."""
        standing = threading.Event()

        def stand() -> None:
            standing.set()
            self._may_run.wait()
            if self.network.is_dead:
                self._terminate()

        self._may_run.clear()
        self.loop.call_soon_threadsafe(stand)
        standing.wait(_TIMEOUT_S)

    def resume(self) -> None:
        """Continue."""
        self._may_run.set()

    def kill(self) -> None:
        """End with this iteration of the loop: sockets close, tasks never continue."""
        self.network.is_dead = True
        # Tasks in progress end without a report.
        self.loop.set_exception_handler(lambda _loop, _context: None)
        self._may_run.set()
        self.loop.call_soon_threadsafe(self._terminate)
        self._thread.join(_TIMEOUT_S)
        self._unwind()
        # A connection that was being made is closed by that, which takes a turn; callbacks run in it, tasks do not.
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        self._unwind()
        self.loop.close()

    def _unwind(self) -> None:
        """End every task here and now, and not when the garbage collector finds it."""
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            assert coroutine is not None
            # It is dead: its exceptions are no errors.
            with contextlib.suppress(Exception):
                coroutine.close()

    def _terminate(self) -> None:
        self.network.abort()
        self.loop.call_soon(self.loop.stop)  # in the turn in which the sockets are closed

    def end(self) -> None:
        """End when there is nothing left to do."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_TIMEOUT_S)
        self.loop.close()
