"""Connections of a Spark process to the cluster, for calls that block.

Spark calls from plain functions and generators, so a connection has an event loop of its own, which runs while a call
waits. Task processes live longer than their tasks and keep their connections: `shared` gives the one of these settings.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from kavka.client.cluster import Cluster
from kavka.client.config import CONSUMER, Config
from kavka.client.leader_requests import require_ok as require_ok
from kavka.client.leader_requests import retrying
from kavka.net.clock import SystemClock, SystemRandom
from kavka.net.network import TcpNetwork

T = TypeVar("T")

_shared: dict[tuple[tuple[str, str], ...], Connection] = {}


class Connection:
    """A cluster and the loop on which it lives. Not for several threads."""

    def __init__(self, settings: Mapping[str, str], retries: bool = False) -> None:
        """Connect: once, so that a wrong address is reported at once, or with `retries` for `default.api.timeout.ms`.

        Raise ValueError for a wrong setting, ConnectionError when no broker answers.
        """
        self.config = Config(CONSUMER, settings)
        self.reads_committed = self.config.text("isolation.level") == "read_committed"
        self.timeout_ms = self.config.integer("default.api.timeout.ms")
        self.loop = asyncio.new_event_loop()
        self._is_closed = False
        try:
            self.cluster = self.run(self._start(self.timeout_ms if retries else 0))
        except BaseException:
            self.loop.close()
            raise

    async def _start(self, timeout_ms: int) -> Cluster:
        cluster = Cluster(
            self.config, network=TcpNetwork(), clock=SystemClock(), random=SystemRandom()
        )
        await cluster.start(timeout_ms)
        return cluster

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the loop until `work` is done and return its result."""
        return self.loop.run_until_complete(work)

    async def retrying(self, attempt: Callable[[], Awaitable[T]], action: str) -> T:
        """Repeat an attempt that fails with a retriable KafkaError or an OSError, until the time is over.

        Raise what the last attempt raised, a TimeoutError saying that `action` failed if no broker responded.
        """
        return await retrying(self.cluster, attempt, action, self.timeout_ms)

    def close(self) -> None:
        """Close the connections. Calling it twice is allowed."""
        if not self._is_closed:
            self._is_closed = True
            self.run(self.cluster.close())
            self.loop.close()


def shared(settings: Mapping[str, str]) -> Connection:
    """Return the connection with these settings that this process keeps until its end.

    It is a task's, and the query was planned by the same address: a broker that is away is waited for.
    """
    key = tuple(sorted(settings.items()))
    connection = _shared.get(key)
    if connection is None:
        connection = _shared[key] = Connection(settings, retries=True)
        atexit.register(connection.close)
    return connection
