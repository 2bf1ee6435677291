"""A listener that exports the progress of any query of a session: to Prometheus, and into the topic of progress.

    listener = QueryExport("shop", "localhost:9092", metrics_port=9101)
    spark.streams.addListener(listener)
    ...
    listener.close()

It takes queries of every source: `format("kavka")`, Spark's own connector, files. Lag is shown of those whose offsets
are Kafka's, at the brokers that it is given. A query without a name has the beginning of its id as one, which its
checkpoint keeps. `kavka pipelines status` shows what is in the topic, with the application as the pipeline.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from kavka.metrics.server import MetricsServer
from kavka.spark.queries.flow_progress import ProgressTable
from kavka.spark.queries.metrics import families
from kavka.spark.queries.reports import QueryReports
from kavka.spark.queries.topic import PROGRESS_TOPIC, StatusPublisher
from kavka.spark.queries.watch import ProgressWatch, now_ms


class QueryExport(StreamingQueryListener):  # type: ignore[misc]
    """Exports the progress of all queries of the sessions that it is added to, until it is closed."""

    def __init__(
        self,
        application: str,
        brokers: str | Mapping[str, str],
        *,
        metrics_port: int | None = None,
        topic: str | None = PROGRESS_TOPIC,
    ) -> None:
        """Start; `brokers` are `host:port,...`, or settings of the client with `bootstrap.servers`.

        With a port (0 for a free one) metrics are served on 127.0.0.1; without a topic nothing is published. Raise
        OSError for a port in use.
        """
        settings = {"bootstrap.servers": brokers} if isinstance(brokers, str) else dict(brokers)
        options = {f"kafka.{name}": value for name, value in settings.items()}
        self.table = ProgressTable(application)
        self._reports = QueryReports(self.table)
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self.metrics_port: int | None = None
        if metrics_port is not None:
            server = self._stack.enter_context(
                MetricsServer(metrics_port, lambda: families(self.table))
            )
            self.metrics_port = server.port
        publisher = None if topic is None else StatusPublisher(settings, topic)
        watch = ProgressWatch(self.table, lambda _: [options], publisher)
        watch.start()
        self._stack.callback(watch.close)

    def close(self) -> None:
        """Publish once more, and close port and connections; remove the listener from its sessions before."""
        self._stack.close()

    def onQueryStarted(self, event: Any) -> None:
        """Record the start of a query."""
        with self._lock:
            self._reports.started(str(event.id), event.name, now_ms())

    def onQueryProgress(self, event: Any) -> None:
        """Record a report."""
        with self._lock:
            self._reports.batch(json.loads(event.progress.json), now_ms())

    def onQueryIdle(self, event: Any) -> None:
        """Ignore idle queries; their lag is read all the same."""

    def onQueryTerminated(self, event: Any) -> None:
        """Record the end of a query."""
        with self._lock:
            self._reports.terminated(str(event.id), event.exception, now_ms())
