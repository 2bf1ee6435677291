"""The steps of handshakes on threads, each address in turn.

    waiting:  10.0.0.1  [a3 a4 a5 ...]     next is a3, then b1, then a4
              10.0.0.2  [b1]

An address with thousands of handshakes delays its own, and one of another address by a few steps. A few steps are
handed to the threads ahead of time, so that they need not wait for the loop.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol


class Step(Protocol):
    """A handshake whose next step is due."""

    @property
    def host(self) -> str:
        """Return the address of the client."""
        ...

    def run(self) -> None:
        """Do it, on a thread."""
        ...

    def ran(self, error: BaseException | None) -> None:
        """Go on, or take what it raised, on the loop; also where the handshake was given up meanwhile."""
        ...


class HandshakeSteps:
    """The queue of steps. Belongs to the running loop."""

    def __init__(self, threads: int) -> None:
        """Do no step yet."""
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(threads, "kavka-tls-handshake")
        self._unhanded = 2 * threads  # how many more the threads may be given
        # Invariant: no address is without a step. The first is that of the next turn.
        self._waiting: dict[str, dict[Step, None]] = {}

    def add(self, step: Step) -> None:
        """Do a step when it is its turn."""
        self._waiting.setdefault(step.host, {})[step] = None
        self._hand_over()

    def discard(self, step: Step) -> None:
        """Do a step no more, unless a thread was given it."""
        of_host = self._waiting.get(step.host, {})
        if step in of_host:
            del of_host[step]
            if not of_host:
                del self._waiting[step.host]

    def close(self) -> None:
        """Do no step any more."""
        self._waiting.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _hand_over(self) -> None:
        while self._unhanded and self._waiting:
            host = next(iter(self._waiting))
            of_host = self._waiting.pop(host)
            step = next(iter(of_host))
            del of_host[step]
            if of_host:
                self._waiting[host] = of_host  # behind the other addresses
            self._unhanded -= 1
            future = self._loop.run_in_executor(self._pool, step.run)
            future.add_done_callback(partial(self._ran, step))

    def _ran(self, step: Step, future: asyncio.Future[None]) -> None:
        self._unhanded += 1
        self._hand_over()
        if not future.cancelled():
            step.ran(future.exception())
