"""Spark with SASL: format kavka by the client's options, and Spark's own connector in Java by Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kavka.client.blocking import Producer
from kavka.testing.local_cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_PASSWORD = "between Spark and us"
JAAS = f'{_MODULE} username="spark" password="{_PASSWORD}";'


@pytest.fixture(scope="module")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{_MODULE} username="spark" password="{_PASSWORD}" user_spark="{_PASSWORD}";'
        ),
    }
    directory = tmp_path_factory.mktemp("sasl")
    with LocalCluster(directory, brokers=1, settings=settings) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("connector", ["kavka", "kafka"])
def test_a_stream_of_spark_is_authenticated(
    spark: SparkSession, bootstrap_servers: str, connector: str
) -> None:
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": JAAS,
    }
    with Producer(settings) as producer:
        producer.send(f"{connector}-read", b"one")
    options = {f"kafka.{name}": text for name, text in settings.items()}
    reading = spark.read.format(connector).options(**options)
    found = reading.option("subscribe", f"{connector}-read").load()
    assert [bytes(row.value) for row in found.collect()] == [b"one"]
    writing = found.select("value").write.format(connector).options(**options).mode("append")
    writing.option("topic", f"{connector}-written").save()
    again = reading.option("subscribe", f"{connector}-written").load()
    assert [bytes(row.value) for row in again.collect()] == [b"one"]


def test_a_refused_credential_ends_the_query_and_is_not_shown(
    spark: SparkSession, bootstrap_servers: str
) -> None:
    options = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "spark",
        "kafka.sasl.password": "topsecret",
    }
    with pytest.raises(Exception, match="Invalid username or password") as refused:
        spark.read.format("kavka").options(**options, subscribe="kavka-read").load().collect()
    assert "topsecret" not in str(refused.value)
