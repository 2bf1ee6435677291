"""A load into a lake: Spark's Kafka connector and file sink, our source and that sink, our source and our lake sink.

`python bench/lake.py [--rows N] [--triggers N] [--rounds N]`; local[2], one topic of two partitions, values of 100
bytes, event times of four hours, Parquet with zstd, all in one run and in turns after a warm-up. Prints the median, the
least and the most of the rounds' rows per second (time in triggers), the number and the mean size of the files, and
what `kavka lake maintain` makes of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "bench", "tests/compat", "tests")]

from apache.results import write_results  # noqa: E402

from kavka.client.admin import NewTopic  # noqa: E402
from kavka.client.blocking import Admin  # noqa: E402
from kavka.lake.catalogs import open_catalog  # noqa: E402
from kavka.lake.compaction import compact  # noqa: E402
from kavka.spark.session import local_session  # noqa: E402
from spark import PARTITIONS, VALUE_BYTES, broker  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE = ("lake", "rows")
HOURS = 4
WAYS = {
    "Spark's connector → Parquet": ("kafka", "parquet"),
    "kavka → Parquet": ("kavka", "parquet"),
    "kavka → kavka-iceberg": ("kavka", "kavka-iceberg"),
}


class Run(NamedTuple):
    """The figures of one load."""

    rows_per_s: float
    files: int
    mean_bytes: float


class Bench:
    """The measured loads."""

    def __init__(
        self, spark: SparkSession, bootstrap: str, rows: int, triggers: int, directory: Path
    ) -> None:
        """Make and fill the topic."""
        with Admin({"bootstrap.servers": bootstrap}) as admin:
            admin.create_topics([NewTopic("bench", PARTITIONS, 1)])
        self._spark = spark
        self._servers = {"kafka.bootstrap.servers": bootstrap}
        self._rows = rows
        self._triggers = triggers
        self._directory = directory
        self._runs = 0
        value = f"CAST(concat(id, '-', repeat(uuid(), {VALUE_BYTES // 36})) AS BINARY) AS value"
        partition = f"CAST(id % {PARTITIONS} AS INT) AS partition"
        frame = spark.range(0, rows, 1, PARTITIONS).selectExpr(value, partition)
        frame.write.format("kavka").mode("append").options(**self._servers, topic="bench").save()

    def load(self, source: str, sink: str) -> Run:
        """Load the topic once, into a new place."""
        self._runs += 1
        place = self._directory / f"load-{self._runs}"
        most = -(-self._rows // self._triggers) + PARTITIONS
        hour = f"({self._rows // PARTITIONS // HOURS + 1})"
        rows = (
            self._spark.readStream.format(source)
            .options(**self._servers, subscribe="bench", startingOffsets="earliest")
            .option("maxOffsetsPerTrigger", str(most))
            .load()
            .selectExpr(
                "value", "topic", "partition", "offset",
                f"timestamp_seconds(1767225600 + 3600 * CAST(offset / {hour} AS INT)) AS event_time",
            )
        )  # fmt: skip
        reports = self._run(rows, sink, place)
        written = sum(report["numInputRows"] for report in reports)
        assert written == self._rows, f"{written} rows of {self._rows}"
        seconds = sum(report["durationMs"]["triggerExecution"] for report in reports) / 1000
        return Run(self._rows / seconds, *_files(place))

    def _run(self, rows: DataFrame, sink: str, place: Path) -> list[dict[str, Any]]:
        if sink == "parquet":
            rows = rows.selectExpr("*", "date_format(event_time, 'yyyy-MM-dd-HH') AS hour")
            writer = rows.writeStream.format(sink).partitionBy("hour").option("path", str(place))
        else:
            writer = (
                rows.writeStream.format(sink)
                .option("table", ".".join(TABLE))
                .option("catalog.warehouse", str(place))
                .option("partitionBy", "hour(event_time)")
            )
        checkpoint = str(self._directory / f"checkpoint-{self._runs}")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        return [json.loads(progress.json) for progress in query.recentProgress]

    def compacted(self) -> tuple[float, int, float]:
        """Compact the last load; return the seconds, the number and the mean size of the files."""
        catalog = open_catalog({"warehouse": str(self._directory / f"load-{self._runs}")})
        started = time.monotonic()
        compact(catalog, TABLE, min_files=2)
        seconds = time.monotonic() - started
        files = [task.file for task in catalog.load_table(TABLE).scan().plan_files()]
        return seconds, len(files), statistics.mean(one.file_size_in_bytes for one in files)

    def clear(self) -> None:
        """Remove the last load."""
        shutil.rmtree(self._directory / f"load-{self._runs}")


def _files(place: Path) -> tuple[int, float]:
    sizes = [path.stat().st_size for path in place.rglob("*.parquet")]
    return len(sizes), statistics.mean(sizes)


def measure(bench: Bench, rounds: int) -> dict[str, list[Run]]:
    """Run all ways in turns, after a warm-up of each."""
    found: dict[str, list[Run]] = {name: [] for name in WAYS}
    for number in range(rounds + 1):
        for name, (source, sink) in WAYS.items():
            run = bench.load(source, sink)
            if number:
                found[name].append(run)
            is_last = number == rounds and sink == "kavka-iceberg"
            if not is_last:
                bench.clear()
    return found


def main() -> None:
    """Print a table, and write all samples."""
    from support.spark.spark_connector import connector_jars

    parser = argparse.ArgumentParser(description="loads into a lake, side by side")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--triggers", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    jars = ",".join(str(path) for path in connector_jars())
    settings = {"spark.jars": jars, "spark.sql.parquet.compression.codec": "zstd"}
    with tempfile.TemporaryDirectory(prefix="kavka-bench-") as name:
        directory = Path(name)
        (directory / "broker").mkdir()
        with broker("kavka", directory / "broker") as bootstrap:
            session = local_session("bench", directory / "spark", settings=settings)
            bench = Bench(session, bootstrap, given.rows, given.triggers, directory)
            found = measure(bench, given.rounds)
            seconds, files, size = bench.compacted()
            session.stop()
    print(
        f"{given.rows:,} rows of {VALUE_BYTES} bytes in {given.triggers} triggers, local[2], {given.rounds} rounds"
    )
    print(f"{'':30}{'rows/s':>12}{'least':>12}{'most':>12}{'files':>8}{'MB each':>10}")
    for way, runs in found.items():
        rates = [run.rows_per_s for run in runs]
        row = (statistics.median(rates), min(rates), max(rates))
        last = runs[-1]
        print(
            f"{way:30}{row[0]:12,.0f}{row[1]:12,.0f}{row[2]:12,.0f}{last.files:8}{last.mean_bytes / 1e6:10.2f}"
        )
    print(f"{'... compacted':30}{f'in {seconds:.1f} s':>36}{files:8}{size / 1e6:10.2f}")
    samples = {way: [run._asdict() for run in runs] for way, runs in found.items()}
    measured = {
        "lines": samples,
        "compaction": {"seconds": seconds, "files": files, "mean_bytes": size},
    }
    print(f"all samples: {write_results('lake', given.rounds, False, measured)}")


if __name__ == "__main__":
    main()
