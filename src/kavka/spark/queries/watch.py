"""Watches the progress of queries beside Spark: the lag at the brokers, and the topic of progress.

It has a thread with an event loop, and writes lags into the table of progress that Spark's reports fill.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack

from kavka.client.admin import Admin
from kavka.client.lag import Lag
from kavka.errors import KafkaError
from kavka.ids import TopicPartition
from kavka.spark.queries.flow_progress import PartitionLag, ProgressTable
from kavka.spark.queries.topic import StatusPublisher

log = logging.getLogger(__name__)

_LAG_EVERY_S = 2.0
_START_EVERY_S = 10.0
"""Seconds between two attempts to reach the topic of progress."""
_ADMIN_TIMEOUT_MS = 5_000
_CLIENT_PREFIX = "kafka."
_FOR_ADMIN = ("bootstrap.servers", "client.dns.lookup", "security.protocol", "request.timeout.ms")
_FOR_ADMIN_PREFIXES = ("sasl.", "ssl.", "reconnect.", "retry.", "socket.", "metadata.")
Options = Mapping[str, str]
"""Options of a read of topics."""


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a connection in the options of a source or sink."""
    given = {
        name[len(_CLIENT_PREFIX) :]: value
        for name, value in options.items()
        if name.lower().startswith(_CLIENT_PREFIX)
    }
    return {
        name: value
        for name, value in given.items()
        if name in _FOR_ADMIN or name.startswith(_FOR_ADMIN_PREFIXES)
    }


class ProgressWatch:
    """Keeps the lags of a table of progress, and publishes it. `close` does both once more."""

    def __init__(
        self,
        table: ProgressTable,
        reads: Callable[[str], Sequence[Options]],
        publisher: StatusPublisher | None,
    ) -> None:
        """Watch the flows of a table; `reads` returns the options of a flow's reads of topics."""
        self.table = table
        self._reads = reads
        self._publisher = publisher
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._admins: dict[tuple[tuple[str, str], ...], Admin] = {}
        self.publish_error = ""

    def start(self) -> None:
        """Start watching lag and publishing."""
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read lags and publish once more, then close the connections."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        async with AsyncExitStack() as stack:
            is_publishing = False
            next_lag_s = next_start_s = 0.0
            while not self._stop.is_set():
                if time.monotonic() >= next_lag_s:
                    await self.update_lags(stack)
                    next_lag_s = time.monotonic() + _LAG_EVERY_S
                if not is_publishing and time.monotonic() >= next_start_s:
                    is_publishing = await self._start_publisher(stack)
                    next_start_s = time.monotonic() + _START_EVERY_S
                if is_publishing:
                    await self._publish(all_now=False)
                await asyncio.sleep(0.2)
            await self.update_lags(stack)
            if is_publishing:
                await self._publish(all_now=True)

    async def _start_publisher(self, stack: AsyncExitStack) -> bool:
        if self._publisher is None:
            return False
        try:
            await self._publisher.start()
        except (KafkaError, OSError, ValueError) as error:
            self._note_publish_error(error)
            return False
        stack.push_async_callback(self._publisher.close)
        return True

    async def _publish(self, *, all_now: bool) -> None:
        assert self._publisher is not None
        try:
            await self._publisher.publish(list(self.table), now_ms(), all_now=all_now)
        except (KafkaError, OSError) as error:
            self._note_publish_error(error)

    def _note_publish_error(self, error: Exception) -> None:
        """Log why progress is not published, once: the pipeline goes on without it."""
        if str(error) != self.publish_error:
            self.publish_error = str(error)
            log.warning("progress is not published error=%s", error)

    async def update_lags(self, stack: AsyncExitStack) -> None:
        """Read the lag of each flow from the brokers; unknown lags stay unchanged."""
        for flow in [one.flow for one in self.table]:
            known_lags: dict[TopicPartition, PartitionLag] = {}
            for options, positions in self._read_positions(flow):
                try:
                    admin = await self._admin(options, stack)
                    lags = await admin.lags(positions, timeout_ms=_ADMIN_TIMEOUT_MS)
                except (KafkaError, OSError, ValueError) as error:
                    log.info("lag is not known flow=%s error=%s", flow, error)
                    continue
                for at, lag in lags.items():
                    if isinstance(lag, Lag):
                        known_lags[at] = PartitionLag(lag.records, lag.seconds)
            if known_lags:
                self.table.lags(flow, known_lags)

    def _read_positions(
        self, flow: str
    ) -> list[tuple[Mapping[str, str], dict[TopicPartition, int]]]:
        """Return how far a flow has read in each cluster, with the options of a read there.

        Spark reports sources in the order of the plan, and not which read each is: with several clusters a topic is
        looked for in the one whose read names it.
        """
        reads = self._reads(flow)
        by_source: dict[int, dict[TopicPartition, int]] = {}
        for positions in self.table.positions(flow):
            for at, offset in positions.items():
                index = next((n for n, read in enumerate(reads) if _names(read, at.topic)), 0)
                if reads:
                    by_source.setdefault(index, {})[at] = offset
        return [(reads[index], positions) for index, positions in by_source.items()]

    async def _admin(self, options: Mapping[str, str], stack: AsyncExitStack) -> Admin:
        settings = client_settings(options)
        key = tuple(sorted(settings.items()))
        if key not in self._admins:
            bounded = {"default.api.timeout.ms": str(_ADMIN_TIMEOUT_MS), **settings}
            self._admins[key] = await stack.enter_async_context(Admin(bounded))
        return self._admins[key]


def _names(options: Mapping[str, str], topic: str) -> bool:
    lower = {name.lower(): value for name, value in options.items()}
    return topic in lower.get("subscribe", "").split(",") or topic in lower.get("assign", "")
