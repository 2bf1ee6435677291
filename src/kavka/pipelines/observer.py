"""Observer of a run: Spark's reports, the lag at the brokers, the topic of progress.

Spark's listener calls from a thread of its own, lag and topic have another one. All of them write into one table of
progress, from which view and metrics read.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kavka.pipelines.definitions import Definitions
from kavka.pipelines.listener_bus import add_listener, remove_listener
from kavka.pipelines.session import within
from kavka.spark.queries.flow_progress import FlowProgress, ProgressTable, unqualified
from kavka.spark.queries.topic import StatusPublisher
from kavka.spark.queries.watch import ProgressWatch, client_settings, now_ms

log = logging.getLogger(__name__)

_LISTENER_S = 5.0
"""Seconds for Spark's last reports at the end."""
_LAST_REPORTS_S = 10.0


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
        """Observe flows; `on_batch` is called with a flow's name after each batch with rows."""
        self.table = table
        self.definitions = definitions
        self._on_batch = on_batch or (lambda flow: None)
        self._listening: Any = None
        self._ended = 0
        self._end = threading.Condition()
        self._watch = ProgressWatch(table, self._reads_of, publisher)

    # Spark's listener

    def listen(self, spark: Any) -> None:
        """Add a listener for the batches of a session's queries."""
        from pyspark.sql.streaming.listener import StreamingQueryListener

        observer = self

        class Listener(StreamingQueryListener):  # type: ignore[misc]
            """Passes Spark's reports to the observer."""

            def onQueryStarted(self, event: Any) -> None:
                """Record the start of a flow."""
                if event.name:
                    observer.table.started(event.name, now_ms())

            def onQueryProgress(self, event: Any) -> None:
                """Record a report."""
                observer.record_progress(json.loads(event.progress.json))

            def onQueryIdle(self, event: Any) -> None:
                """Ignore idle queries."""

            def onQueryTerminated(self, event: Any) -> None:
                """Count the query; the run of the flows records failures itself."""
                if event.exception is None:
                    observer.record_termination()

        listener = Listener()
        add_listener(spark, listener)
        self._listening = (spark, listener)

    def record_termination(self) -> None:
        """Count a query that has ended without an error; Spark reports it without the flow's name."""
        with self._end:
            self._ended += 1
            self._end.notify_all()

    def wait_for_reports(self, flows: Iterable[str], timeout_s: float = _LAST_REPORTS_S) -> bool:
        """Wait for the last reports of flows that have ended well, which come after that; return whether all came."""
        streams = {unqualified(flow) for flow in flows if self.table.of(flow).kind == "stream"}
        with self._end:
            return self._end.wait_for(lambda: self._ended >= len(streams), timeout_s)

    def record_progress(self, progress: Mapping[str, Any]) -> None:
        """Record Spark's report of a batch."""
        flow = self.table.batch(progress, now_ms())
        if flow is not None and progress.get("numInputRows", 0):
            self._on_batch(flow.flow)

    # Lag and topic

    def start(self) -> None:
        """Start watching lag and publishing."""
        self._watch.start()

    def close(self) -> None:
        """Stop listening, publish once more, close the connections."""
        if self._listening is not None:
            within(_LISTENER_S, self._remove_listener)
        self._watch.close()

    @property
    def publish_error(self) -> str:
        """Return why progress is not published, nothing where it is."""
        return self._watch.publish_error

    def _reads_of(self, name: str) -> list[Mapping[str, str]]:
        flow = self.definitions.flow(name)
        return [] if flow is None else [one.options for one in self.definitions.topic_reads(flow)]

    def _remove_listener(self) -> None:
        spark, listener = self._listening
        try:
            remove_listener(spark, listener)
        except Exception as error:  # noqa: BLE001 - the session ends in any case, and its listeners with it
            log.info("listener was not removed error=%s", error)


def flows_of(table: ProgressTable) -> list[FlowProgress]:
    """Return the flows of a table, those that fail first."""
    return sorted(table, key=lambda flow: flow.state != "failed")
