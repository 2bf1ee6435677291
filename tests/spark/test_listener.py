"""The progress of any query, with Spark's own connector too, exported to Prometheus and a topic."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kavka.spark.listener import QueryExport
from support.spark.topic_filling import make_topic
from support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_a_query_of_sparks_connector_is_exported(
    spark: SparkSession, kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    make_topic(kavka_broker, fresh_name, 1)
    producer = Producer({"bootstrap.servers": kavka_broker.bootstrap})
    for number in range(20):
        producer.produce(fresh_name, b"%d" % number)
    assert producer.flush(30) == 0
    listener = QueryExport("shop", kavka_broker.bootstrap, metrics_port=0, topic=f"{fresh_name}-p")
    spark.streams.addListener(listener)
    try:
        topic = (
            spark.readStream.format("kafka").option("kafka.bootstrap.servers", kavka_broker.bootstrap)
            .option("subscribe", fresh_name).option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "15").load()
        )  # fmt: skip
        fails = topic.selectExpr(
            "IF(offset < 15, value, CAST(raise_error('no more') AS BINARY)) AS value"
        )
        query = (
            fails.writeStream.format("noop").queryName("clicks")
            .option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        )  # fmt: skip
        with pytest.raises(Exception, match="no more"):
            query.awaitTermination(60)
        clicks = listener.table.of("clicks")
        asyncio.run(until(lambda: clicks.state == "failed" and clicks.lag_records == 5))
        assert (clicks.rows_in, clicks.last_error) == (15, "no more")
        with urllib.request.urlopen(f"http://127.0.0.1:{listener.metrics_port}/metrics") as page:
            lines = page.read().decode().splitlines()
        labels = '{pipeline="shop",flow="clicks"'
        assert f"kavka_pipeline_rows_in_total{labels}}} 15" in lines
        assert f'kavka_pipeline_lag_records{labels},topic="{fresh_name}",partition="0"}} 5' in lines
    finally:
        spark.streams.removeListener(listener)
        listener.close()

    settings = {"bootstrap.servers": kavka_broker.bootstrap, "group.id": "t"}
    with Consumer(settings) as consumer:
        topic_partition = TopicPartition(f"{fresh_name}-p", 0)
        end = consumer.get_watermark_offsets(topic_partition, timeout=30)[1]
        consumer.assign([TopicPartition(f"{fresh_name}-p", 0, end - 1)])
        [last] = consumer.consume(1, timeout=30)
    assert last.key() == b"shop/clicks"
    published = json.loads(last.value())
    assert (published["state"], published["rows_in"]) == ("failed", 15)
    assert published["lag"][f"{fresh_name}-0"]["records"] == 5
