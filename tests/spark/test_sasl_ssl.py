"""Spark over SASL_SSL: its own connector in Java and format kavka, by SCRAM, with a trust store of Java's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kavka.client.admin import ScramUpsertion
from kavka.client.blocking import Admin
from kavka.testing.local_cluster import LocalCluster
from support.certificates import PASSWORD
from support.in_process import dotted
from support.tls import TlsFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]
_PACKAGE = "org.apache.kafka.common.security"
_LOGIN = 'required username="spark" password="between Spark and us";'
_PLAIN = f"{_PACKAGE}.plain.PlainLoginModule {_LOGIN[:-1]}"


def test_a_stream_of_spark_is_authenticated_by_scram_over_tls(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = TlsFiles(tmp_path)
    settings = {
        name: text
        for name, text in dotted(files.broker_settings()).items()
        if name.startswith("ssl.")
    } | {
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{_PLAIN} user_spark="between Spark and us";'
        ),
    }
    with LocalCluster(tmp_path / "cluster", brokers=1, settings=settings) as cluster:
        common = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "JKS",
            "ssl.truststore.location": files.authority.write_jks(tmp_path / "ca.jks"),
            "ssl.truststore.password": PASSWORD,
        }
        plain = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{_PLAIN};"}
        with Admin({**common, **plain}) as admin:
            upsertion = ScramUpsertion("spark", "SCRAM-SHA-512", "between Spark and us")
            assert admin.alter_user_scram_credentials([upsertion]) == {"spark": None}
        scram = {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f"{_PACKAGE}.scram.ScramLoginModule {_LOGIN}",
        }
        options = {f"kafka.{name}": text for name, text in (common | scram).items()}
        for connector in ("kafka", "kavka"):
            rows = spark.createDataFrame([(f"by {connector}",)], "value string")
            writing = rows.write.format(connector).options(**options).mode("append")
            writing.option("topic", "t").save()
            reading = spark.read.format(connector).options(**options).option("subscribe", "t")
            found = reading.load().selectExpr("cast(value as string)").collect()
            assert f"by {connector}" in [row[0] for row in found]
