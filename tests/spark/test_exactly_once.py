"""The exactly-once sink without accidents, on our broker and on Apache Kafka's; `test_exactly_once_kills` has those."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from kavka.client.blocking import Admin
from kavka.spark.errors import sentence_of
from support.spark.killing import assert_each_once, committed, fill
from support.spark.topic_filling import make_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(300)]

PARTITIONS = 2


def write(frame: DataFrame, broker: Broker, topic: str, **options: str) -> None:
    """Write a frame exactly once, as the sink named after the topic."""
    (
        frame.write.format("kavka")
        .mode("append")
        .options(topic=topic, deliveryGuarantee="exactly-once", sinkId=topic)
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .options(**options)
        .save()
    )


def numbers(spark: SparkSession, count: int) -> DataFrame:
    """Numbers as values, in two tasks."""
    return spark.range(0, count, 1, 2).select(F.col("id").cast("string").alias("value"))


def open_transactions(broker: Broker, prefix: str) -> list[str]:
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        found = admin.list_transactions(states=["Ongoing"])
    names = [one.transactional_id for listings in found.values() for one in listings]
    return [name for name in names if name.startswith(prefix)]


def test_a_data_frame_is_written_once_under_its_name(
    spark: SparkSession, any_broker: Broker, fresh_name: str
) -> None:
    make_topic(any_broker, fresh_name, PARTITIONS)
    values = [str(number) for number in range(500)]
    for name, copies in (("monday", 1), ("monday", 1), ("tuesday", 2)):
        write(numbers(spark, 500), any_broker, fresh_name, writeId=name)
        found = committed(any_broker.bootstrap, fresh_name, PARTITIONS)
        assert_each_once(found, values * copies)
    write(numbers(spark, 500), any_broker, fresh_name)
    assert_each_once(committed(any_broker.bootstrap, fresh_name, PARTITIONS), values * 3)


def test_of_a_data_frame_that_fails_nothing_is_seen(
    spark: SparkSession, kavka_broker: Broker, fresh_name: str
) -> None:
    make_topic(kavka_broker, fresh_name, PARTITIONS)

    def failing(pieces: Iterator[Any]) -> Iterator[Any]:
        for piece in pieces:
            yield piece
            if "999" in piece.column("value").to_pylist():
                raise RuntimeError("as the test wants it")

    frame = numbers(spark, 1000)
    with pytest.raises(PySparkException):
        write(frame.mapInArrow(failing, frame.schema), kavka_broker, fresh_name)
    assert committed(kavka_broker.bootstrap, fresh_name, PARTITIONS) == []
    write(numbers(spark, 10), kavka_broker, fresh_name)
    assert open_transactions(kavka_broker, fresh_name) == []
    found = committed(kavka_broker.bootstrap, fresh_name, PARTITIONS)
    assert_each_once(found, [str(number) for number in range(10)])


@pytest.fixture
def stream(
    spark: SparkSession, any_broker: Broker, fresh_name: str, tmp_path: Path
) -> Callable[..., None]:
    """Run an exactly-once query from one topic to another over what is there."""
    for name in (fresh_name, f"{fresh_name}-out"):
        make_topic(any_broker, name, PARTITIONS)
    servers = {"kafka.bootstrap.servers": any_broker.bootstrap}

    def run(**options: str) -> None:
        rows = (
            spark.readStream.format("kavka")
            .options(**servers, subscribe=fresh_name, startingOffsets="earliest")
            .options(maxOffsetsPerTrigger="200")
            .load()
        )
        writer = rows.select("key", "value").writeStream.format("kavka").options(**servers)
        (
            writer.options(topic=f"{fresh_name}-out", deliveryGuarantee="exactly-once")
            .options(**{"checkpointLocation": str(tmp_path / "checkpoint")} | options)
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    return run


def test_a_stream_goes_on_where_it_was_and_a_new_checkpoint_is_noticed(
    stream: Callable[..., None], any_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    values = [str(number) for number in range(600)]
    out = f"{fresh_name}-out"
    for part in (values[:400], values[400:]):
        fill(any_broker.bootstrap, fresh_name, PARTITIONS, part)
        stream(sinkId=fresh_name)
    assert_each_once(committed(any_broker.bootstrap, out, PARTITIONS), values)
    other_sink = {"sinkId": fresh_name, "checkpointLocation": str(tmp_path / "other")}
    with pytest.raises(PySparkException) as caught:
        stream(**other_sink)
    assert "onNewCheckpoint" in (sentence_of(caught.value) or "")
    assert_each_once(committed(any_broker.bootstrap, out, PARTITIONS), values)
    stream(**other_sink, onNewCheckpoint="reset")
    assert_each_once(committed(any_broker.bootstrap, out, PARTITIONS), values * 2)
    assert open_transactions(any_broker, fresh_name) == []
