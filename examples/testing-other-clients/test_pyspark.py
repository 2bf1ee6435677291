"""An application of PySpark: it counts words of a topic into another one."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, explode, split

from kavka.testing import Cluster


def count_words(spark: SparkSession, options: dict[str, Any], lines: str, counts: str) -> None:
    """Write how often each word comes in `lines`, the word as the key."""
    source = spark.read.format("kavka").options(**options).option("subscribe", lines).load()
    words = source.select(explode(split(col("value").cast("string"), " ")).alias("word"))
    counted = words.groupBy("word").count()
    rows = counted.select(col("word").alias("key"), col("count").cast("string").alias("value"))
    rows.write.format("kavka").options(**options).option("topic", counts).mode("append").save()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Spark takes the `python3` of the path, which is another one where the environment is not activated.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.master("local[1]").appName("count words").getOrCreate()
    session.conf.set("spark.sql.shuffle.partitions", 1)
    yield session
    session.stop()


def test_words_are_counted(spark: SparkSession, kavka_broker: Cluster) -> None:
    lines, counts = kavka_broker.topic("lines"), kavka_broker.topic("counts")
    lines.send("to be or not to be")
    count_words(spark, kavka_broker.client_settings("spark"), lines.name, counts.name)
    found = {record.key: record.value for record in counts.wait_for(4)}
    assert found == {b"to": b"2", b"be": b"2", b"or": b"1", b"not": b"1"}
