"""Tests of pipelines as a user writes them: a template's, the page's expectations, a case that fails, a slice.

One process of pytest runs them all, as `kavka pipelines test` starts it: Spark starts once.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kavka.pipelines.project import make_project
from kavka.pipelines.testing.records import read_slice
from support.spark.dead_letter_project import make_dead_letter_project
from support.spark.pages import blocks
from support.spark.pipeline_commands import run_stock
from support.spark.standalone import environment
from support.spark.topic_filling import make_topic_at

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(600)]

QUALITY = '''
"""Rows that meet their expectations, and rows that do not."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from kavka.pipelines.testing import Record, UpdateFailed

GOOD = {"user": "ann", "page": "/a", "status": 200}


def test_rows_are_counted_dropped_and_quarantined(pipeline):
    assert not pipeline.spark.catalog.listTables(), "tables of another test"
    pipeline.create_topic("shop-events", 2)
    rows = [GOOD, {**GOOD, "page": "/" + 100 * "x"}, {**GOOD, "page": "x"}]
    pipeline.feed("shop-events", [Record(row, partition=0) for row in rows])
    pipeline.feed("shop-events", [Record({"page": "/b", "status": 500}, partition=1)])
    updated = pipeline.run()

    counts = {
        name: (found.passed, found.failed)
        for name, found in updated.expectations("visits").items()
    }
    assert counts == {"has a user": (3, 1), "a page": (2, 1), "short page": (1, 1)}
    assert updated.expectations("statuses")["a status"].passed == 2
    assert not updated.expectations("visits_quarantine")
    assert [row["page"][:2] for row in pipeline.table("visits", "page")] == ["/a", "/x"]

    [bad] = librdkafka_reads(pipeline.bootstrap_servers, "shop-bad")
    assert bad.key() == b"/b"
    row = {"topic": "shop-events", "partition": 1, "offset": 0, "user": None, "page": "/b", "status": 500}
    assert pipeline.topic("shop-bad")[0].json == {
        "failed": ["has a user"], "topic": "shop-events", "partition": 1, "offset": 0, "row": row,
    }

    pipeline.feed("shop-events", [{**GOOD, "status": 7}])
    with pytest.raises(UpdateFailed, match="the expectation 'a status' .* is not met by the row .*:7"):
        pipeline.run()
    assert len(pipeline.table("statuses")) == 2
    assert len(pipeline.table("visits")) == 3


def librdkafka_reads(servers, topic):
    settings = {"bootstrap.servers": servers, "group.id": "t", "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer.consume(1, timeout=30)
    finally:
        consumer.close()
'''
WRONG = """
name: what is wrong is shown
given:
  shop-events:
    slice: tests/slice.jsonl
expect:
  tables:
    visits: [{user: ann, page: /other}]
  expectations:
    visits: {has a user: 5}
"""


def kavka_pipelines(*arguments: str | Path, **variables: str) -> tuple[int, str]:
    """Run a command; return its exit code and what it prints."""
    command = [sys.executable, "-m", "kavka", "pipelines", *map(str, arguments)]
    done = subprocess.run(
        command,
        env=environment() | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    return done.returncode, done.stdout + done.stderr


def make_quality_project(directory: Path) -> Path:
    """A project with the page's expectations and nothing else."""
    make_project(directory, "blank", "localhost:9092")
    for old in [*directory.glob("transformations/*"), *directory.glob("tests/*")]:
        old.unlink()
    _, code = blocks("test-pipelines", __file__, "python")
    (directory / "transformations" / "visits.py").write_text(code)
    (directory / "tests" / "test_quality.py").write_text(QUALITY)
    return directory


def test_projects_are_tested_between_brokers_and_tables_of_their_own(
    broker: Broker, tmp_path: Path
) -> None:
    shop = tmp_path / "shop"
    make_project(shop, "blank", "localhost:9092")
    test, _ = blocks("test-pipelines", __file__, "python")
    assert test.split("\n\n\n", 1)[1] in (shop / "tests" / "test_events.py").read_text()
    [case] = blocks("test-pipelines", __file__, "yaml")
    assert case in (shop / "tests" / "test_cases.yml").read_text()

    quality = make_quality_project(tmp_path / "quality")
    make_topic_at(broker.bootstrap, "shop-events", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("shop-events", b'{"user": "ann", "page": "/a", "status": 200}', b"ann")
    assert producer.flush(30) == 0
    record = ("record", "shop-events", "--bootstrap-server", broker.bootstrap, "--output")
    code, said = kavka_pipelines(*record, quality / "tests" / "slice.jsonl")
    assert code == 0, said
    assert "1 records of shop-events" in said
    (quality / "tests" / "test_wrong.yml").write_text(WRONG)

    dead = tmp_path / "dead"
    make_dead_letter_project(dead, __file__)
    others = (f"--pytest={one / 'tests'}" for one in (quality, dead))
    code, said = kavka_pipelines("test", shop, *others)
    assert code == 1, said
    assert "1 failed, 4 passed" in said, said
    assert "test_cases.yml::a request without a status is no failure PASSED" in said
    assert 'table visits:\n  missing:    {"page": "/other", "user": "ann"}' in said
    assert '\n  unexpected: {"page": "/a", "user": "ann"}' in said
    assert "flow visits: 0 rows failed 'has a user', expected 5" in said


@pytest.mark.long
def test_the_tests_of_the_template_activity_pass(tmp_path: Path) -> None:
    """The demo runs the pipeline itself, in `make test` too."""
    make_project(tmp_path / "site", "activity", "localhost:9092")
    code, said = kavka_pipelines("test", tmp_path / "site")
    assert code == 0, said
    assert "test_each_line_is_counted_once_and_reaches_its_topics PASSED" in said


def test_a_range_of_a_topic_is_recorded_once(broker: Broker, tmp_path: Path) -> None:
    make_topic_at(broker.bootstrap, "t", 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(6):
        producer.produce("t", bytes([255, number]), None, number % 2, timestamp=1000 + number)
    assert producer.flush(30) == 0
    file = tmp_path / "slice.jsonl"
    record = ("record", "t", "--bootstrap-server", broker.bootstrap, "--output", file)
    code, said = kavka_pipelines(*record, "--from", "1001", "--to", "1005")
    assert code == 0, said
    found = [(one.partition, one.offset, one.timestamp, one.value) for one in read_slice(file)]
    assert found == [
        (0, 1, 1002, b"\xff\x02"), (0, 2, 1004, b"\xff\x04"),
        (1, 0, 1001, b"\xff\x01"), (1, 1, 1003, b"\xff\x03"),
    ]  # fmt: skip
    code, said = kavka_pipelines(*record)
    assert code == 1
    assert f"{file} exists: choose another name" in said
    code, said = kavka_pipelines(
        *record[:-1], tmp_path / "two", "--partition", "1", "--max-records", "2"
    )
    assert "there may be more" in said
    assert [one.offset for one in read_slice(tmp_path / "two")] == [0, 1]


def test_a_project_without_tests_says_where_they_belong(tmp_path: Path) -> None:
    project = make_quality_project(tmp_path / "none")
    (project / "tests" / "test_quality.py").unlink()
    code, said = kavka_pipelines("test", project)
    assert (code, "has no tests that were chosen" in said) == (1, True), said
    (project / "tests").rmdir()
    code, said = kavka_pipelines("test", project)
    assert code == 1
    assert "has no folder tests: write tests/test_NAME.py or tests/test_NAME.yml" in said


SLOW_PYTHON = """#!/bin/sh
case "$*" in
*python_streaming_source_runner*) mkdir "{first}" 2>/dev/null && sleep 11 ;;
esac
exec "{python}" "$@"
"""
"""A Python whose first reader of a stream starts later than Spark waits, which is ten seconds."""


MAPPED = """
from pathlib import Path

from pyspark import SparkContext


def test_the_archive_is_in_use(pipeline):
    maps = Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text()
    assert ".jsa" in maps.replace("/server/classes", ""), "only Java's own archive is"
"""


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_classes_of_spark_are_kept_for_the_next_tests(tmp_path: Path) -> None:
    shop, kept = tmp_path / "shop", tmp_path / "kept"
    make_project(shop, "blank", "localhost:9092")
    variables = {"KAVKA_SPARK_CLASSES": str(kept), "SPARK_SUBMIT_OPTS": ""}
    code, said = kavka_pipelines("test", shop, "--keep-classes", "-k", "alerted", **variables)
    assert code == 0, said
    [archive] = kept.iterdir()
    assert f"kept Spark's classes in {archive}" in said
    (shop / "tests" / "test_mapped.py").write_text(MAPPED)
    code, said = kavka_pipelines("test", shop, "-k", "archive", **variables)
    assert code == 0, said
    assert "kept Spark's classes" not in said


@pytest.mark.long
def test_an_update_goes_on_when_a_process_of_python_starts_too_slowly(tmp_path: Path) -> None:
    make_project(tmp_path / "shop", "blank", "localhost:9092")
    python, first = tmp_path / "python", tmp_path / "first"
    python.write_text(SLOW_PYTHON.format(first=first, python=sys.executable))
    python.chmod(0o755)
    test = tmp_path / "shop" / "tests" / "test_events.py"
    code, said = kavka_pipelines("test", test, PYSPARK_PYTHON=str(python))
    assert code == 0, said
    assert first.exists()


@pytest.mark.long
def test_the_stock_command_drops_and_quarantines_as_well(broker: Broker, tmp_path: Path) -> None:
    project = make_quality_project(tmp_path / "quality")
    code = project / "transformations" / "visits.py"
    code.write_text(code.read_text().replace("localhost:9092", broker.bootstrap))
    for topic in ("shop-events", "shop-bad"):
        make_topic_at(broker.bootstrap, topic, 1)
    # The page's stream begins at the end of the topic, so its first run reads nothing.
    code.write_text(
        code.read_text().replace(".load()", '.option("startingOffsets", "earliest").load()')
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in (b'{"user": "ann", "page": "/a", "status": 200}', b'{"page": "/b"}', b"no JSON"):
        producer.produce("shop-events", value)
    assert producer.flush(30) == 0
    run_stock(project)
    import pyarrow.dataset as ds

    tables = project / "storage" / "tables"
    for table in ("visits", "statuses"):
        rows = ds.dataset(str(tables / table), format="parquet").to_table().to_pylist()
        assert [row["user"] for row in rows] == ["ann"]
    found = project / "bad.jsonl"
    record = ("record", "shop-bad", "--bootstrap-server", broker.bootstrap, "--output", found)
    exit_code, said = kavka_pipelines(*record)
    assert exit_code == 0, said
    bad = [one.json for one in read_slice(found)]
    assert [(one["failed"], one["offset"]) for one in bad] == [
        (["has a user"], 1),
        (["has a user"], 2),
    ]


LAKE = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

spark.conf.get("spark.sql.session.timeZone")
dp.create_sink(
    "lake",
    "kavka-iceberg",
    {"table": "shop.visits", "catalog.uri": "https://lake.example", "catalog.token": "t", "sinkId": "l"},
)


@dp.append_flow(target="lake", name="to_lake")
def to_lake():
    return (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", "prod.example:9092")
        .option("kafka.security.protocol", "SASL_SSL")
        .option("subscribe", "shop-events")
        .load()
        .select("topic", "partition", "offset", F.col("value").cast("string").alias("page"))
    )
"""
LAKE_TEST = """
from datetime import UTC, datetime

from kavka.pipelines.testing import Record

import pytest


def test_rows_reach_the_lake_of_the_test(pipeline):
    at = datetime(2020, 1, 1, tzinfo=UTC)
    pipeline.feed("shop-events", ["/a", Record("/b", "k", (("h", b"x"),), at)])
    assert pipeline.topic("shop-events")[1].timestamp == 1577836800000
    pipeline.run()
    assert [row["page"] for row in pipeline.lake_table("shop.visits")] == ["/a", "/b"]
    with pytest.raises(Exception, match="there is no table 'visits'; there is none: has it run"):
        pipeline.table("visits")
"""


@pytest.mark.long
def test_a_lake_and_secured_brokers_of_production_are_not_reached(tmp_path: Path) -> None:
    project = make_quality_project(tmp_path / "lake")
    (project / "transformations" / "visits.py").write_text(LAKE)
    (project / "tests" / "test_quality.py").write_text(LAKE_TEST)
    code, said = kavka_pipelines("test", project / "tests" / "test_quality.py")
    assert code == 0, said
    assert "1 passed" in said
