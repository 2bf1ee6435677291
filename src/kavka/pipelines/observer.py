"""Watches a run: Spark's reports, the lag at the brokers, the topic of progress, the metrics.

Spark's listener calls from a thread of its own; lag and topic have a thread with an event loop. All of them write into
one table of progress, from which view and metrics read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from kavka.client.admin import Admin
from kavka.client.lag import Lag
from kavka.errors import KafkaError
from kavka.ids import TopicPartition
from kavka.pipelines.definitions import Definitions, FlowDefinition, short
from kavka.pipelines.progress import FlowProgress, PartitionLag, ProgressTable
from kavka.pipelines.session import within
from kavka.pipelines.status import StatusPublisher

log = logging.getLogger(__name__)

_LAG_EVERY_S = 2.0
_LISTENER_S = 5.0
"""Seconds for Spark's last reports at the end."""
_START_EVERY_S = 10.0
"""Seconds between two attempts to reach the topic of progress."""
_LAST_REPORTS_S = 10.0
_ADMIN_TIMEOUT_MS = 5_000
_CLIENT_PREFIX = "kafka."
_FOR_ADMIN = ("bootstrap.servers", "client.dns.lookup", "security.protocol", "request.timeout.ms")
_FOR_ADMIN_PREFIXES = ("sasl.", "ssl.", "reconnect.", "retry.", "socket.", "metadata.")


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


def first_brokers(definitions: Definitions) -> dict[str, str]:
    """Return the connection of the first flow that reads topics, or of the first sink into one; empty without any."""
    reads = [read.options for flow in definitions.flows for read in flow.reads]
    sinks = [output.options for output in definitions.outputs if output.kind == "sink"]
    for options in reads + sinks:
        settings = client_settings(options)
        if "bootstrap.servers" in settings:
            return settings
    return {}


class Observer:
    """The observers of one run. `close` sends the last progress."""

    def __init__(
        self,
        table: ProgressTable,
        definitions: Definitions,
        publisher: StatusPublisher | None,
        on_batch: Callable[[str], None] | None = None,
    ) -> None:
        """Take what is watched; `on_batch` is called with a flow's name at each batch that took rows or time."""
        self.table = table
        self.definitions = definitions
        self._publisher = publisher
        self._on_batch = on_batch or (lambda flow: None)
        self._listening: Any = None
        self._ended = 0
        self._end = threading.Condition()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._admins: dict[tuple[tuple[str, str], ...], Admin] = {}
        self.publish_error = ""

    # Spark's listener

    def listen(self, spark: Any) -> None:
        """Let a session report the batches of its queries."""
        from pyspark.sql.streaming.listener import StreamingQueryListener

        observer = self

        class Listener(StreamingQueryListener):  # type: ignore[misc]
            """Passes reports on."""

            def onQueryStarted(self, event: Any) -> None:
                """Note a flow that runs."""
                if event.name:
                    observer.table.started(event.name, now_ms())

            def onQueryProgress(self, event: Any) -> None:
                """Take a report."""
                observer.take(json.loads(event.progress.json))

            def onQueryIdle(self, event: Any) -> None:
                """Nothing new."""

            def onQueryTerminated(self, event: Any) -> None:
                """Note that all reports of a query have come; who runs the flows knows why one failed."""
                if event.exception is None:
                    observer.reported()

        listener = Listener()
        spark.streams.addListener(listener)
        self._listening = (spark, listener)

    def reported(self) -> None:
        """Note that a query has ended well: Spark reports that after its last batch, and without the flow's name."""
        with self._end:
            self._ended += 1
            self._end.notify_all()

    def wait_for_reports(self, flows: Iterable[str], timeout_s: float = _LAST_REPORTS_S) -> bool:
        """Wait for the last reports of flows that have ended well, which come after that; return whether all came."""
        streams = {short(flow) for flow in flows if self.table.of(flow).kind == "stream"}
        with self._end:
            return self._end.wait_for(lambda: self._ended >= len(streams), timeout_s)

    def take(self, progress: Mapping[str, Any]) -> None:
        """Take Spark's report of a batch."""
        flow = self.table.batch(progress, now_ms())
        if flow is not None and progress.get("numInputRows", 0):
            self._on_batch(flow.flow)

    # Lag and topic

    def start(self) -> None:
        """Begin to watch lag and to publish."""
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, publish once more, close the connections."""
        if self._listening is not None:
            within(_LISTENER_S, self._remove_listener)
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _remove_listener(self) -> None:
        spark, listener = self._listening
        try:
            spark.streams.removeListener(listener)
        except Exception as error:  # noqa: BLE001 - the session ends in any case, and its listeners with it
            log.info("listener was not removed error=%s", error)

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
        """Ask the brokers how far each flow is behind; what is not known stays as it was."""
        for flow in self.definitions.flows:
            known: dict[TopicPartition, PartitionLag] = {}
            for options, positions in self._read_positions(flow):
                try:
                    admin = await self._admin(options, stack)
                    found = await admin.lags(positions, timeout_ms=_ADMIN_TIMEOUT_MS)
                except (KafkaError, OSError, ValueError) as error:
                    log.info("lag is not known flow=%s error=%s", flow.name, error)
                    continue
                for at, lag in found.items():
                    if isinstance(lag, Lag):
                        known[at] = PartitionLag(lag.records, lag.seconds)
            if known:
                self.table.lags(flow.name, known)

    def _read_positions(
        self, flow: FlowDefinition
    ) -> list[tuple[Mapping[str, str], dict[TopicPartition, int]]]:
        """Return how far a flow has read in each cluster, with the options of a read there.

        Spark reports sources in the order of the plan, and not which read each is: with several clusters a topic is
        looked for in the one whose read names it.
        """
        reads = self.definitions.topic_reads(flow)
        found: dict[int, dict[TopicPartition, int]] = {}
        for positions in self.table.positions(flow.name):
            for at, offset in positions.items():
                index = next(
                    (n for n, read in enumerate(reads) if _names(read.options, at.topic)), 0
                )
                if reads:
                    found.setdefault(index, {})[at] = offset
        return [(reads[index].options, positions) for index, positions in found.items()]

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


def flows_of(table: ProgressTable) -> list[FlowProgress]:
    """Return the flows of a table, those that fail first."""
    return sorted(table, key=lambda flow: flow.state != "failed")
