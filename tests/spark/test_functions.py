"""Columns with schemas and dead letters in Spark; Confluent's serializers write and read, librdkafka carries."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kavka.client.schemas import ProtobufCodec, Schema, SchemaRegistry
from kavka.spark.catalog import register_topics
from kavka.spark.dead_letters import without_errors
from kavka.spark.errors import ConnectorError
from kavka.spark.functions import FAILFAST, decode, decoder, encode, file_schema, registry_schema
from kavka.spark.lateness import late, lateness, on_time
from support.schema_registry import serve_registry
from support.spark.pages import blocks
from support.spark.topic_filling import make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CLICK = json.dumps({"type": "record", "name": "Click", "fields": [
    {"name": "user", "type": ["null", "string"]}, {"name": "ms", "type": "long"},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "counts", "type": {"type": "map", "values": "int"}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
]})  # fmt: skip
ORDER = json.dumps({
    "title": "Order", "type": "object", "required": ["id"],
    "properties": {
        "id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
    },
})  # fmt: skip
PLACE = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { int32 n = 1; }
message Place {
  string name = 1;
  uint64 number = 2;
  google.protobuf.Timestamp at = 3;
  Kind kind = 4;
  Inner inner = 5;
  message Inner { double lat = 1; }
}
enum Kind { A = 0; B = 1; }
"""
CLICKS_IN_SQL = json.dumps({"type": "record", "name": "Click", "fields": [
    {"name": "user", "type": "string"}, {"name": "ms", "type": "long"}, {"name": "offset", "type": "int"},
]})  # fmt: skip
CONTEXT = SerializationContext("t", MessageField.VALUE)


def test_confluents_serializers_write_what_is_read_and_read_what_is_written(
    spark: SparkSession,
) -> None:
    from pyspark.sql import functions as F

    place = ProtobufCodec(PLACE, message="Place").message_class()
    moment = place().at.__class__(seconds=5, nanos=7000)
    with serve_registry() as server, SchemaRegistryClient({"url": server.url}) as client:
        writers = {
            "click": AvroSerializer(client, CLICK, conf=_subject("click")),
            "order": JSONSerializer(ORDER, client, conf=_subject("order")),
            "place": ProtobufSerializer(
                place, client, {"use.deprecated.format": False, **_subject("place")}
            ),
        }
        values: dict[str, Any] = {
            "click": {"user": "ann", "ms": 5, "tags": ["x"], "counts": {"a": 1}, "at": 7, "time": 1000},
            "order": {"id": 3, "at": "2026-11-26T02:00:00Z", "lines": [{"sku": "s"}]},
            "place": place(name="home", number=2**64 - 1, at=moment, kind=1, inner={"lat": 1.5}),
        }  # fmt: skip
        written = {name: writers[name](values[name], CONTEXT) for name in writers}
        schemas = {
            name: registry_schema(server.url, name, message="Place" if name == "place" else None)
            for name in writers
        }
        asked = len(server.requests)
        rows = spark.createDataFrame([tuple(written.values())] * 50, [*written]).repartition(2)
        read = rows.select(*(decode(name, schemas[name]).alias(name) for name in written))
        again = without_errors(read, "click.error").select(
            *(F.struct(name).alias(f"{name}_row") for name in written),
            *(encode(f"{name}.value", schemas[name]).alias(name) for name in written),
        )
        found = again.collect()
        assert len(found) == 50
        row = found[0].asDict(recursive=True)
        values_read = {name: row[f"{name}_row"][name]["value"] for name in written}
        assert all(row[f"{name}_row"][name]["error"] is None for name in written)
        click = values_read["click"]
        assert (click["user"], click["ms"], click["tags"], click["counts"]) == (
            "ann",
            5,
            ["x"],
            {"a": 1},
        )
        assert (click["at"].microsecond, click["time"].second) == (7, 1)
        assert values_read["order"]["lines"] == [{"sku": "s"}]
        assert int(values_read["place"]["number"]) == 2**64 - 1
        assert values_read["place"]["inner"] == {"lat": 1.5}
        # The ids of the values are those of the schemas that the driver has asked for.
        assert len(server.requests) == asked

        assert AvroDeserializer(client)(bytes(row["click"]), CONTEXT)["counts"] == {"a": 1}
        assert bytes(row["click"]) == written["click"]
        assert JSONDeserializer(ORDER)(bytes(row["order"]), CONTEXT)["id"] == 3
        reader = ProtobufDeserializer(place, {"use.deprecated.format": False})
        assert reader(bytes(row["place"]), CONTEXT) == values["place"]


def _subject(name: str) -> dict[str, Any]:
    return {"subject.name.strategy": lambda *_: name}


def test_bad_values_go_to_the_dead_letter_topic_exactly_once(
    spark: SparkSession, kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    (tmp_path / "click.avsc").write_text(
        '{"type": "record", "name": "Click", "fields": [{"name": "ms", "type": "long"}]}'
    )
    schema = file_schema(tmp_path / "click.avsc", framed=True, schema_id=7)
    dead = f"{fresh_name}-dead"
    for name in (fresh_name, dead):
        make_topic(kavka_broker, name, 1)
    producer = Producer({"bootstrap.servers": kavka_broker.bootstrap})
    old = [("trace", b"1"), ("__kavka.errors.stage", b"before"), ("none", None)]
    for value in (b"\0\0\0\0\7\x0a", b"junk", b"\0\0\0\0\7", None):
        producer.produce(fresh_name, value, b"k", headers=old, timestamp=5000)
    assert producer.flush(30) == 0
    servers = {"kafka.bootstrap.servers": kavka_broker.bootstrap}
    topic = (
        spark.readStream.format("kavka").options(**servers).option("subscribe", fresh_name)
        .option("startingOffsets", "earliest").option("includeHeaders", "true").load()
    )  # fmt: skip
    [code] = blocks("dead-letters", __file__, "python")
    names = {"topic": topic, "decode": decode, "schema": schema, "brokers": kavka_broker.bootstrap}
    names["checkpoint"] = str(tmp_path / dead)
    exec(code.replace("clicks-dead", dead), names)
    names["query"].processAllAvailable()
    names["query"].stop()
    framing, payload = _read(kavka_broker, dead, 2)
    assert (framing.key(), framing.value()) == (b"k", b"junk")
    headers = dict(framing.headers())
    assert headers.pop("__kavka.errors.exception.stacktrace").endswith(
        b"FramingError: it has 4 bytes, less than the 5 of a frame\n"
    )
    assert headers == {
        "trace": b"1",
        "none": None,
        "__kavka.errors.topic": fresh_name.encode(),
        "__kavka.errors.partition": b"0",
        "__kavka.errors.offset": b"1",
        "__kavka.errors.timestamp": b"5000",
        "__kavka.errors.stage": b"decode",
        "__kavka.errors.exception.class.name": b"kavka.client.schemas.errors.FramingError",
        "__kavka.errors.exception.message": b"it has 4 bytes, less than the 5 of a frame",
    }
    assert payload.value() == b"\0\0\0\0\7"


def _read(broker: Broker, topic: str, count: int) -> list[Any]:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "t",
        "isolation.level": "read_committed",
    }
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Any] = consumer.consume(count, timeout=30)
    assert len(found) == count
    return found


def test_failfast_functions_of_sql_and_lateness(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    (tmp_path / "click.json").write_text(
        '{"type": "object", "properties": {"ms": {"type": "integer"}}}'
    )
    schema = file_schema(tmp_path / "click.json")
    spark.udf.register("read_click", decoder(schema, FAILFAST))
    one = spark.sql("SELECT read_click(v).ms FROM VALUES ('{\"ms\": 5}'), (NULL) AS t(v)")
    assert [row[0] for row in one.collect()] == [5, None]
    with pytest.raises(PySparkException, match="A value cannot be decoded: it is no JSON"):
        spark.sql("SELECT read_click('{') AS click").collect()
    with pytest.raises(
        ConnectorError, match="The mode is PERMISSIVE or FAILFAST, not 'dropmalformed'"
    ):
        decode("v", schema, "dropmalformed")

    rows = spark.sql(
        "SELECT * FROM VALUES (TIMESTAMP'2026-11-26 02:00:00', TIMESTAMP'2026-11-26 02:10:00', 'in time'), "
        "(TIMESTAMP'2026-11-26 01:59:59', TIMESTAMP'2026-11-26 02:10:00', 'late'), "
        "(NULL, TIMESTAMP'2026-11-26 02:10:00', 'without a time') AS t(at, timestamp, name)"
    )
    assert [row.name for row in on_time(rows, "at", "10 minutes").collect()] == ["in time"]
    assert [row.name for row in late(rows, "at", "10 minutes").collect()] == [
        "late",
        "without a time",
    ]
    reasons = [row[0] for row in rows.select(lateness("at", "10 minutes").message).collect()]
    assert reasons == [
        None,
        "the event is of 2026-11-26 01:59:59, more than 10 minutes before 2026-11-26 02:10:00",
        "at is null",
    ]


@pytest.mark.long
def test_what_sparks_watermark_would_drop_is_late_before(
    spark: SparkSession, kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    make_topic(kavka_broker, fresh_name, 1)
    producer = Producer({"bootstrap.servers": kavka_broker.bootstrap})
    minute = 60_000
    for came, at in ((100, 100), (101, 101), (102, 95), (103, 102), (104, 90), (105, 94)):
        producer.produce(fresh_name, b"%d" % (at * minute), timestamp=came * minute)
    assert producer.flush(30) == 0
    events = (
        spark.readStream.format("kavka").options(**_reading(kavka_broker, fresh_name))
        .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "2").load()
        .selectExpr("timestamp", "timestamp_millis(CAST(CAST(value AS STRING) AS BIGINT)) AS at")
    )  # fmt: skip
    dropped, rows = {}, {}
    for name, frame in {"all": events, "on time": on_time(events, "at", "10 minutes")}.items():
        counted = frame.withWatermark("at", "10 minutes").groupBy("at").count()
        query = (
            counted.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / name)).start()
        )  # fmt: skip
        assert query.awaitTermination(120)
        operators = [one for report in query.recentProgress for one in report["stateOperators"]]
        dropped[name] = sum(one["numRowsDroppedByWatermark"] for one in operators)
        rows[name] = sum(one["numRowsUpdated"] for one in operators)
    assert dropped == {"all": 1, "on time": 0}
    kept = spark.read.format("kavka").options(**_reading(kavka_broker, fresh_name)).load()
    kept = kept.selectExpr("timestamp", "CAST(CAST(value AS STRING) AS BIGINT) DIV 60000 AS minute",
                           "timestamp_millis(CAST(CAST(value AS STRING) AS BIGINT)) AS at")  # fmt: skip
    found = [row.minute for row in late(kept, "at", "10 minutes").orderBy("timestamp").collect()]
    assert found == [90, 94]  # Spark would have taken the second one
    assert rows["on time"] == 4


def test_topics_are_tables_by_name(
    spark: SparkSession, kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    dotted = f"{fresh_name}.raw"
    for name in (fresh_name, dotted):
        make_topic(kavka_broker, name, 1)
    producer = Producer({"bootstrap.servers": kavka_broker.bootstrap})
    with serve_registry() as server:
        SchemaRegistry(server.url).register(f"{fresh_name}-value", Schema(CLICKS_IN_SQL))
        values = [b"\0\0\0\0\1\6ann\x0a\2", b"\0\0\0\0\1\6bob\x0c\2", b"junk"]
        for value in values:
            producer.produce(fresh_name, value, b"k")
        producer.produce(dotted, b"raw", b"k")
        assert producer.flush(30) == 0
        in_spark, as_tables = blocks("schemas", __file__, "python")
        records = spark.read.format("kavka").options(**_reading(kavka_broker, fresh_name)).load()
        exec(
            in_spark.replace("http://localhost:8081", server.url).replace(
                "clicks-v", f"{fresh_name}-v"
            ),
            found_names := {"topic": records},
        )
        assert [bytes(row.value) for row in found_names["out"].collect()] == values[:2]
        views = register_topics(
            spark,
            kavka_broker.bootstrap,
            registry=server.url,
            pattern=rf"{re.escape(fresh_name)}.*",
            prefix="kafka_topics.",
        )
        made = [(view.table, view.stream, view.schema is not None) for view in views]
        assert made == [
            (f"kafka_topics.{name}", f"kafka_topics.{name}_stream", name == fresh_name)
            for name in (fresh_name, dotted)
        ]
        found = spark.sql(
            f"SELECT user, ms, value_offset, offset, value_error FROM `kafka_topics.{fresh_name}` ORDER BY offset"
        ).collect()
        assert [tuple(row)[:4] for row in found] == [
            ("ann", 5, 1, 0),
            ("bob", 6, 1, 1),
            (None, None, None, 2),
        ]
        assert [row.value_error for row in found] == [
            None,
            None,
            "it has 4 bytes, less than the 5 of a frame",
        ]
        [raw] = spark.table(f"`kafka_topics.{dotted}`").collect()
        assert (bytes(raw.value), bytes(raw.key)) == (b"raw", b"k")
        query = (
            spark.table(f"`kafka_topics.{fresh_name}_stream`").select("user")
            .writeStream.format("memory").queryName("users").trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        )  # fmt: skip
        assert query.awaitTermination(120)
        assert {row.user for row in spark.table("users").collect()} == {"ann", "bob", None}
        code = as_tables.replace("localhost:9092", kavka_broker.bootstrap)
        code = code.replace("http://localhost:8081", server.url).replace("clicks", fresh_name)
        exec(_ticked(code, fresh_name), {"spark": spark})


def test_topics_that_cannot_be_tables_are_refused(
    spark: SparkSession, kavka_broker: Broker, fresh_name: str
) -> None:
    with pytest.raises(ConnectorError, match="is no regular expression"):
        register_topics(spark, kavka_broker.bootstrap, pattern="(")
    for name in (fresh_name, f"{fresh_name}_STREAM"):
        make_topic(kavka_broker, name, 1)
    with pytest.raises(ConnectorError, match="both have a view"):
        register_topics(spark, kavka_broker.bootstrap, pattern=f"{fresh_name}.*")


def _reading(broker: Broker, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}


def _ticked(code: str, topic: str) -> str:
    """Return code with backticks around the names of views, which have dashes here."""
    return re.sub(rf"{re.escape(topic)}(_stream)?", lambda found: f"`{found[0]}`", code)
