"""The five streaming queries of the demo: the activity pipeline between topics and files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kavka.demo.page_table import PageTable
from kavka.demo.supervised_queries import SupervisedQueries
from kavka.spark.pipelines import activity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ACCESS, DEAD_LETTERS, ALERTS, SESSIONS = "access", "dead-letters", "alerts", "sessions"
TOPICS = (ACCESS, DEAD_LETTERS, ALERTS, SESSIONS)
_TRIGGER = "1 second"
_KEPT_WINDOWS = 50


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a query: records taken from the access topic, and rows per second of its last batch."""

    taken: int = 0
    rows_per_second: float = 0.0


class Queries:
    """The running queries. Each reads the access topic on its own and publishes its progress to a group of its name."""

    def __init__(self, spark: SparkSession, bootstrap: str, directory: Path) -> None:
        """Start all of them; data goes below `directory`."""
        self.pages = PageTable(_KEPT_WINDOWS)
        self.parquet = directory / "events"
        self._spark = spark
        self._bootstrap = bootstrap
        self._checkpoints = directory / "checkpoints"
        self._queries = SupervisedQueries()
        self._start_counts()
        self._start_files()
        self._start_topic(
            "dead-letters", DEAD_LETTERS, activity.dead_letters(self._lines("dead-letters"))
        )
        alerts = activity.crawler_alerts(self._on_time("alerts"))
        self._start_topic("alerts", ALERTS, activity.as_records(alerts, "visitor"))
        sessions = activity.sessions(self._on_time("sessions"))
        self._start_topic("sessions", SESSIONS, activity.as_records(sessions, "visitor"))

    def _lines(self, name: str) -> DataFrame:
        records = (
            self._spark.readStream.format("kavka")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", ACCESS)
            .option("startingOffsets", "earliest")
            .option("groupId", f"demo-{name}")
            .load()
        )
        return activity.parse(records)

    def _on_time(self, name: str) -> DataFrame:
        return activity.on_time(activity.events(self._lines(name)))

    def _writer(self, name: str, frame: DataFrame) -> Any:
        writer = frame.writeStream.queryName(name).trigger(processingTime=_TRIGGER)
        return writer.option("checkpointLocation", str(self._checkpoints / name))

    def _start_files(self) -> None:
        writer = self._writer("files", activity.events(self._lines("files")))
        writer = (
            writer.format("parquet").partitionBy("date", "hour").option("path", str(self.parquet))
        )
        self._queries.start("files", writer.start)

    def _start_topic(self, name: str, topic: str, records: DataFrame) -> None:
        writer = self._writer(name, records).format("kavka")
        writer = writer.option("kafka.bootstrap.servers", self._bootstrap).option("topic", topic)
        self._queries.start(name, writer.start)

    def _start_counts(self) -> None:
        counts = activity.page_counts(self._on_time("counts"))
        rows = counts.select(F.unix_timestamp("window_start").alias("start"), "page", "requests")

        def show(changed: DataFrame, batch_id: int) -> None:
            self.pages.update((row.start, row.page, row.requests) for row in changed.collect())

        self._queries.start(
            "counts", self._writer("counts", rows).outputMode("update").foreachBatch(show).start
        )

    def progress(self) -> dict[str, Progress]:
        """Return how far each query is."""
        return {name: progress_of(query.lastProgress) for name, query in self._queries}

    def check(self) -> None:
        """Raise the exception of the first query that has failed."""
        self._queries.check()

    def are_warm(self) -> bool:
        """Return whether every query has ended its first batch, empty or not: Spark compiles and loads during it."""
        return all(query.lastProgress is not None for _, query in self._queries)

    def have_taken(self, records: int) -> bool:
        """Return whether every query has finished this many records of the access topic."""
        return all(one.taken >= records for one in self.progress().values())

    def finish(self) -> None:
        """Wait until nothing is left to do, so that the groups have committed the end as well."""
        for _, query in self._queries:
            query.processAllAvailable()

    def stop(self) -> None:
        """Stop all queries."""
        for _, query in self._queries:
            query.stop()


def progress_of(report: Any) -> Progress:
    """Read Spark's report of a batch, None before the first; the sum of its offsets is a number of records."""
    if report is None:
        return Progress()
    return Progress(
        _sum(report["sources"][0]["endOffset"]), report["processedRowsPerSecond"] or 0.0
    )


def _sum(offsets: str | None) -> int:
    """Return the sum of offsets in the JSON of Spark's Kafka source."""
    return sum(sum(partitions.values()) for partitions in json.loads(offsets or "{}").values())
