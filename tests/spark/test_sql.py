"""`USING kavka` in SQL: views that are read and written, and tables of a catalogue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from kavka.spark.errors import sentence_of
from support.spark.topic_filling import fill, make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.compat]


@pytest.fixture
def name(kavka_broker: Broker, fresh_name: str) -> str:
    """A topic with 20 records, and one to write to; the name is one of SQL, too."""
    made = fresh_name.replace("-", "_")
    for topic in (made, f"{made}_out"):
        make_topic(kavka_broker, topic, 2)
    assert fill(kavka_broker, made, 2, rounds=4) == 20
    return made


def written(spark: SparkSession, broker: Broker, name: str) -> int:
    servers = {"kafka.bootstrap.servers": broker.bootstrap}
    return spark.read.format("kavka").options(**servers, subscribe=f"{name}_out").load().count()


def refusal(spark: SparkSession, statement: str) -> str:
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        spark.sql(statement).collect()
    return sentence_of(caught.value) or ""


def test_a_view_is_read_and_written(spark: SparkSession, kavka_broker: Broker, name: str) -> None:
    spark.sql(
        f"CREATE TEMPORARY VIEW {name} USING kavka OPTIONS('kafka.bootstrap.servers' '{kavka_broker.bootstrap}',"
        f" 'subscribe' '{name}', 'startingOffsets' 'earliest', 'topic' '{name}_out')"
    )
    assert spark.sql(f"SELECT * FROM {name}").count() == 20
    spark.sql(f"INSERT INTO {name} SELECT * FROM {name}")
    assert written(spark, kavka_broker, name) == 20


def test_a_view_without_subscribe_is_written_only(
    spark: SparkSession, kavka_broker: Broker, name: str
) -> None:
    spark.sql(
        f"CREATE TEMPORARY VIEW {name} USING kavka OPTIONS('kafka.bootstrap.servers' '{kavka_broker.bootstrap}',"
        f" 'topic' '{name}_out')"
    )
    spark.sql(f"INSERT INTO {name} (key, value) SELECT binary('k'), binary('v')")
    assert written(spark, kavka_broker, name) == 1
    assert "Exactly one of subscribe" in refusal(spark, f"SELECT * FROM {name}")


def test_a_table_is_used_with_options_in_the_query(
    spark: SparkSession, kavka_broker: Broker, name: str
) -> None:
    servers = f"'kafka.bootstrap.servers' = '{kavka_broker.bootstrap}'"
    spark.sql(
        f"CREATE TABLE {name} USING kavka OPTIONS({servers}, 'subscribe' = '{name}') COMMENT 'c'"
    )
    try:
        options = f"WITH ({servers}, 'subscribe' = '{name}', 'topic' = '{name}_out')"
        assert spark.sql(f"SELECT * FROM {name} {options}").count() == 20
        spark.sql(f"INSERT INTO {name} {options} SELECT * FROM {name} {options}")
        assert written(spark, kavka_broker, name) == 20
        assert "SELECT * FROM t WITH (" in refusal(spark, f"SELECT * FROM {name}")
        statement = f"INSERT INTO {name} (value) SELECT binary('v')"
        assert "SELECT * FROM t WITH (" in refusal(spark, statement)
    finally:
        spark.sql(f"DROP TABLE {name}")


def test_what_spark_refuses_before_it_asks_the_connector_has_sparks_words(
    spark: SparkSession, kavka_broker: Broker, name: str, tmp_path: Path
) -> None:
    """As docs/spark.md says: no sentence of ours is in these errors, nothing of the connector was called."""
    servers = {"kafka.bootstrap.servers": kavka_broker.bootstrap}
    spark.sql(
        f"CREATE TEMPORARY VIEW {name} USING kavka OPTIONS('kafka.bootstrap.servers' '{kavka_broker.bootstrap}',"
        f" 'topic' '{name}_out')"
    )
    rows = spark.range(1).selectExpr("cast(id AS string) AS value")
    stream = spark.readStream.format("rate").load().selectExpr("cast(value AS string) AS value")
    sink = stream.writeStream.format("kavka").options(**servers, topic=f"{name}_out")
    streamed = sink.outputMode("update").option("checkpointLocation", str(tmp_path))
    refused: dict[str, Callable[[], object]] = {
        "UNSUPPORTED_DATA_SOURCE_SAVE_MODE": rows.write.format("kavka").options(**servers).save,
        "kavka does not support Update mode": lambda: streamed.start().awaitTermination(60),
        "INSERT_COLUMN_ARITY_MISMATCH": lambda: spark.sql(f"INSERT INTO {name} SELECT 'k', 'v'"),
    }
    for words, act in refused.items():
        with pytest.raises(PySparkException, match=words) as caught:
            act()
        assert sentence_of(caught.value) is None
