"""Spark's own Kafka connector and ours in one run, in turns: batch read, streaming read, batch write.

`python bench/spark.py [--rows N] [--rounds N] [--broker apache|kavka]`; local[2], one topic of two partitions, values
of 100 bytes. Prints the median of the rounds after a warm-up. The machinery that fetches the jars is that of the tests.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "bench", "tests/compat", "tests/spark")]

from apache.report import Line, as_json  # noqa: E402
from apache.results import write_results  # noqa: E402

from kavka.spark.session import local_session  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS, THEIRS = "kavka", "kafka"
VALUE_BYTES = 100
PARTITIONS = 2
_TRIGGERS = 2
"""Micro-batches of a streaming read."""


class Bench:
    """The measured pipelines; each returns the seconds that its rows took."""

    def __init__(self, spark: SparkSession, bootstrap: str, rows: int, directory: Path) -> None:
        """Fill the topic that is read."""
        self._spark = spark
        self._servers = {"kafka.bootstrap.servers": bootstrap}
        self._rows = rows
        self._directory = directory
        self._runs = 0
        self._frame = self._values().cache()
        self._frame.count()
        self._make_topic("bench-read")
        self._frame.write.format(THEIRS).options(**self._servers, topic="bench-read").save()

    def _values(self) -> DataFrame:
        value = f"CAST(lpad(CAST(id AS STRING), {VALUE_BYTES}, 'x') AS BINARY) AS value"
        return self._spark.range(0, self._rows, 1, PARTITIONS).selectExpr(value)

    def _make_topic(self, name: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self._servers["kafka.bootstrap.servers"]})
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
            future.result(30)

    def batch_read(self, form: str) -> float:
        """Read the topic into nothing."""
        started = time.monotonic()
        frame = (
            self._spark.read.format(form).options(**self._servers, subscribe="bench-read").load()
        )
        frame.write.format("noop").mode("overwrite").save()
        return time.monotonic() - started

    def streaming_read(self, form: str) -> float:
        """Read it with AvailableNow; the time is that of the triggers, without the start of the query."""
        self._runs += 1
        most = str(-(-self._rows // _TRIGGERS) + PARTITIONS)
        frame = (
            self._spark.readStream.format(form)
            .options(
                **self._servers,
                subscribe="bench-read",
                startingOffsets="earliest",
                maxOffsetsPerTrigger=most,
            )
            .load()
        )
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        query = writer.option(
            "checkpointLocation", str(self._directory / f"checkpoint-{self._runs}")
        ).start()
        query.awaitTermination()
        reports = [json.loads(progress.json) for progress in query.recentProgress]
        read = sum(report["numInputRows"] for report in reports)
        assert read == self._rows, f"{form} read {read} rows of {self._rows}"
        return sum(report["durationMs"]["triggerExecution"] for report in reports) / 1000

    def batch_write(self, form: str) -> float:
        """Write rows that lie in memory into a fresh topic."""
        self._runs += 1
        topic = f"bench-write-{self._runs}"
        self._make_topic(topic)
        started = time.monotonic()
        self._frame.write.format(form).mode("append").options(**self._servers, topic=topic).save()
        return time.monotonic() - started


def compare(what: str, run: Callable[[str], float], rows: int, rounds: int) -> Line:
    """Run both in turns, print the medians, and return all samples."""
    for form in (THEIRS, OURS):
        run(form)
    rates: dict[str, list[float]] = {THEIRS: [], OURS: []}
    for _ in range(rounds):
        for form, found in rates.items():
            found.append(rows / run(form))
    theirs, ours = (statistics.median(rates[form]) for form in (THEIRS, OURS))
    print(f"{what:33} {theirs:12,.0f} {ours:12,.0f} {ours / theirs:8.2f}", flush=True)
    samples = {"apache": rates[THEIRS], "kavka": rates[OURS]}
    return Line(what, "rows/s", samples, goal=1.0, more_is_better=True)


@contextmanager
def broker(kind: str, directory: Path) -> Iterator[str]:
    """Run a broker and give its address."""
    if kind == "apache":
        from kavka_compat.apache import ApacheKafka

        with ApacheKafka("4.1").run_broker(directory) as running:
            yield running.bootstrap
    else:
        from kavka_compat.ours import run_kavka

        with run_kavka(directory, {}) as running:
            yield running.bootstrap


def main() -> None:
    """Print a table: rows per second of each, and the ratio of ours to theirs."""
    from spark_connector import connector_jars

    parser = argparse.ArgumentParser(description="Spark's Kafka connector and ours, side by side")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--broker", choices=("apache", "kavka"), default="kavka")
    given = parser.parse_args()
    jars = ",".join(str(path) for path in connector_jars())
    with tempfile.TemporaryDirectory(prefix="kavka-bench-") as name:
        directory = Path(name)
        (directory / "broker").mkdir()
        with broker(given.broker, directory / "broker") as bootstrap:
            session = local_session("bench", directory / "spark", settings={"spark.jars": jars})
            bench = Bench(session, bootstrap, given.rows, directory)
            print(
                f"{given.rows:,} rows of {VALUE_BYTES} bytes, local[2], broker {given.broker}, rows/s"
            )
            print(f"{'':33} {'Spark':>12} {'kavka':>12} {'ratio':>8}")
            runs = {
                "batch read": bench.batch_read,
                "streaming read (time in triggers)": bench.streaming_read,
                "batch write": bench.batch_write,
            }
            lines = [compare(what, run, given.rows, given.rounds) for what, run in runs.items()]
            session.stop()
    note = f"pyspark, local[2], {given.rows:,} rows of {VALUE_BYTES} bytes, broker {given.broker}."
    path = write_results("spark", given.rounds, False, {"lines": as_json(lines), "note": note})
    print(f"all samples: {path}")


if __name__ == "__main__":
    main()
