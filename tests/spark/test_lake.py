"""`format("kavka-iceberg")`: what it writes from Spark, what it refuses, and that others read it."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from pyspark.errors import PySparkException

from kavka.cli.main import main
from kavka.client.blocking import Producer
from kavka.lake.catalogs import open_catalog
from kavka.spark.errors import sentence_of
from kavka.testing.local_cluster import LocalCluster

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.kavka_cluster(brokers=1, settings={"num.partitions": "2"}),
]
FIRST = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
HOUR_MS = 3_600_000
ROWS = ("CAST(value AS STRING) AS value", "topic", "partition", "offset", "timestamp AS event_time")


class Load:
    """Topics of a broker in this process, and a warehouse."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, directory: Path) -> None:
        self.spark = spark
        self.servers = cluster.bootstrap_servers
        self.warehouse = str(directory / "warehouse")
        self.directory = directory

    def fill(self, topic: str, numbers: range, hours: int = 3) -> None:
        """Write numbers to both partitions, over some hours."""
        with Producer({"bootstrap.servers": self.servers}) as producer:
            for number in numbers:
                stamp = int(FIRST.timestamp() * 1000) + number % hours * HOUR_MS
                at = number % 2
                producer.append(topic, b"%d" % number, partition=at, timestamp_ms=stamp)
            producer.flush()

    def rows(self, topic: str, **options: str) -> DataFrame:
        source = self.spark.read.format("kavka").option("subscribe", topic)
        return source.option("kafka.bootstrap.servers", self.servers).options(**options).load()

    def write(self, rows: DataFrame, mode: str = "append", **options: str) -> None:
        given = {"table": "lake.rows", "catalog.warehouse": self.warehouse, **options}
        rows.write.format("kavka-iceberg").mode(mode).options(**given).save()

    def stream(self, topics: str, *columns: str, **options: str) -> None:
        """Load all that is there now."""
        given = {"table": "lake.rows", "catalog.warehouse": self.warehouse, **options}
        given.setdefault("checkpointLocation", str(self.directory / "checkpoint"))
        query = (
            self.spark.readStream.format("kavka")
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", topics)
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr(*(columns or ROWS))
            .writeStream.format("kavka-iceberg")
            .options(**given)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def table(self, name: str = "lake.rows") -> Table:
        return open_catalog({"warehouse": self.warehouse}).load_table(name)

    def values(self, name: str = "lake.rows") -> Counter[str]:
        return Counter(self.table(name).scan().to_arrow()["value"].to_pylist())


@pytest.fixture
def load(spark: SparkSession, kavka_cluster: LocalCluster, tmp_path: Path) -> Load:
    return Load(spark, kavka_cluster, tmp_path)


def refusal(work: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(PySparkException) as raised:
        work(*arguments, **named)
    return sentence_of(raised.value) or ""


def test_a_stream_into_partitions_by_event_time_and_on_with_a_new_and_a_wider_column(
    load: Load,
) -> None:
    load.fill("clicks", range(300))
    narrow = ("CAST(CAST(value AS STRING) AS INT) AS number", *ROWS)
    load.stream("clicks", *narrow, partitionBy="hour(event_time)", sortBy="offset")
    hours = {task.file.partition[0] for task in load.table().scan().plan_files()}
    assert len(hours) == 3
    load.fill("clicks", range(300, 400), hours=4)
    wide = ("CAST(CAST(value AS STRING) AS BIGINT) AS number", *ROWS, "'web' AS place")
    said = refusal(load.stream, "clicks", *wide)
    assert "it has no column place" in said
    assert "mergeSchema" in said
    load.stream("clicks", *wide, mergeSchema="true")
    assert load.values() == Counter(map(str, range(400)))
    rows = load.table().scan().to_arrow().sort_by("number")
    assert rows["place"].to_pylist() == [None] * 300 + ["web"] * 100
    assert str(load.table().schema().find_field("number").field_type) == "long"
    assert main(["lake", "audit", "--table", "lake.rows", "--warehouse", load.warehouse,
                 "--bootstrap-server", load.servers]) == 0  # fmt: skip


def test_several_topics_go_to_a_table_each_and_duckdb_reads_them(load: Load) -> None:
    load.fill("web.clicks", range(100))
    load.fill("orders", range(50))
    load.stream("web.clicks,orders", table="lake.{topic}_raw")
    for name, count in (("lake.web_clicks_raw", 100), ("lake.orders_raw", 50)):
        assert load.values(name) == Counter(map(str, range(count)))
        files = [task.file.file_path for task in load.table(name).scan().plan_files()]
        read = duckdb.sql(f"SELECT value FROM read_parquet({files})").aggregate(
            "count(*), count(distinct value)"
        )
        assert read.fetchall() == [(count, count)]


@pytest.mark.long
def test_a_range_is_planned_by_the_command_and_replaced_and_nothing_else_changes(
    load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    load.fill("clicks", range(60), hours=1000)
    wrong = "CASE WHEN CAST(CAST(value AS STRING) AS INT) BETWEEN 20 AND 29 THEN 'wrong' ELSE CAST(value AS STRING) END"
    load.write(load.rows("clicks").selectExpr(f"{wrong} AS value", *ROWS[1:]))
    assert load.values()["wrong"] == 10
    times = ["--from", "2026-01-01T20:00:00", "--to", "2026-01-02T06:00:00"]
    at = ["--table", "lake.rows", "--warehouse", load.warehouse, "--bootstrap-server", load.servers]
    assert main(["lake", "reload", *at, *times, "--dry-run"]) == 0
    assert '{"clicks": {"0": [10, 15], "1": [10, 15]}}' in capsys.readouterr().out
    ranges = '{"clicks": {"0": [10, 15], "1": [10, 15]}}'
    only = load.rows("clicks", startingTimestamp="1767297600000", endingTimestamp="1767333600000")
    load.write(only.selectExpr(*ROWS), "overwrite", replaceOffsets=ranges)
    assert load.values() == Counter(map(str, range(60)))
    said = refusal(load.write, load.rows("clicks").selectExpr(*ROWS), "overwrite", replaceOffsets=ranges)  # fmt: skip
    assert "would be doubled" in said
    assert load.values() == Counter(map(str, range(60)))


@pytest.mark.long
def test_a_data_frame_with_a_write_id_is_written_once(load: Load) -> None:
    load.fill("clicks", range(20))
    for _ in range(2):
        load.write(load.rows("clicks").selectExpr(*ROWS), sinkId="daily", writeId="monday")
    assert load.values() == Counter(map(str, range(20)))


def test_what_is_refused_is_said_in_one_sentence(load: Load) -> None:
    load.fill("clicks", range(2))
    rows = load.rows("clicks").selectExpr(*ROWS)
    for options, words in (
        ({"tabel": "x"}, "did you mean table?"),
        ({"createTable": "false"}, "There is no table lake.rows"),
        ({"partitionBy": "hour(value)"}, "hour is not possible with value"),
    ):
        assert words in refusal(load.write, rows, **options)
    assert "only writes" in refusal(load.spark.read.format("kavka-iceberg").load)
