"""Our serializers beside Confluent's, both ways, and our client of the registry beside theirs."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import SchemaReference as TheirReference
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as TheirProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, timestamp_pb2, type_pb2

from kavka.client.schemas import (
    AvroSerializer,
    ColumnDecoder,
    JsonSerializer,
    ProtobufSerializer,
    Schema,
    SchemaDeserializer,
    SchemaReference,
    SchemaRegistry,
)
from support.schema_registry import RegistryServer, serve_registry

AVRO = json.dumps({
    "type": "record", "name": "Click", "namespace": "test", "fields": [
        {"name": "user", "type": "string"},
        {"name": "ms", "type": ["null", "long"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "place", "type": {"type": "record", "name": "Place", "fields": [{"name": "lat", "type": "double"}]}},
    ],
})  # fmt: skip
CLICK = {
    "user": "ann", "ms": 5, "at": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    "price": decimal.Decimal("1.50"), "tags": ["a", "b"], "counts": {"x": 1}, "kind": "B", "place": {"lat": 47.5},
}  # fmt: skip
JSON = json.dumps({
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Click", "type": "object",
    "properties": {"user": {"type": "string"}, "ms": {"type": "integer"}}, "required": ["user"],
})  # fmt: skip
CONTEXT = SerializationContext("clicks", MessageField.VALUE)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with serve_registry() as made:
        yield made


@pytest.fixture
def theirs(server: RegistryServer) -> Any:
    return SchemaRegistryClient({"url": server.url})


def test_avro_is_read_by_confluents_deserializer_and_theirs_by_ours(
    server: RegistryServer, theirs: Any
) -> None:
    registry = SchemaRegistry(server.url)
    ours = AvroSerializer(registry, AVRO, "clicks-value")(CLICK)
    assert AvroDeserializer(theirs)(ours, CONTEXT) == CLICK
    written = TheirAvroSerializer(theirs, AVRO)(CLICK, CONTEXT)
    assert ours is not None
    assert written is not None
    assert SchemaDeserializer(registry)(written) == CLICK
    assert written[5:] == ours[5:]


def test_json_is_read_by_confluents_deserializer_and_theirs_by_ours(
    server: RegistryServer, theirs: Any
) -> None:
    registry = SchemaRegistry(server.url)
    value = {"user": "zoë", "ms": 5}
    ours = JsonSerializer(registry, JSON, "clicks-value")(value)
    assert JSONDeserializer(JSON, schema_registry_client=theirs)(ours, CONTEXT) == value
    written = JSONSerializer(JSON, theirs)(value, CONTEXT)
    assert ours is not None
    assert written is not None
    assert written[:5] == ours[:5]
    assert SchemaDeserializer(registry)(written) == value


@pytest.mark.parametrize(
    "message",
    [
        timestamp_pb2.Timestamp(seconds=5, nanos=7),
        descriptor_pb2.FieldOptions.FeatureSupport(deprecation_warning="nested"),
        descriptor_pb2.DescriptorProto.ExtensionRange(start=3, end=9),
        type_pb2.Type(name="imports others", oneofs=["x"]),
    ],
    ids=lambda message: message.DESCRIPTOR.full_name,
)
def test_protobuf_is_read_by_confluents_deserializer_and_theirs_by_ours(
    server: RegistryServer, theirs: Any, message: Any
) -> None:
    """Of messages at the top, in others, and of a file that imports files."""
    registry = SchemaRegistry(server.url)
    kind = type(message)
    ours = ProtobufSerializer(registry, kind, "clicks-value")(message)
    assert ProtobufDeserializer(kind, {"use.deprecated.format": False})(ours, CONTEXT) == message
    written = TheirProtobufSerializer(kind, theirs, {"use.deprecated.format": False})(
        message, CONTEXT
    )
    assert ours is not None
    assert written is not None
    assert written[5:] == ours[5:]
    for data in (ours, written):
        read = SchemaDeserializer(registry)(data)
        assert read.SerializeToString() == message.SerializeToString()
        assert read.DESCRIPTOR.full_name == message.DESCRIPTOR.full_name


def test_columns_of_confluents_values(server: RegistryServer, theirs: Any) -> None:
    registry = SchemaRegistry(server.url)
    write = TheirAvroSerializer(theirs, AVRO)
    values = pa.array([write(CLICK | {"ms": n}, CONTEXT) for n in range(100)], pa.binary())
    deserializer = SchemaDeserializer(registry)
    columns, bad = ColumnDecoder(deserializer, deserializer.codec(1)).decode(
        values, ["user", "ms", "at", "price", "counts", "place"]
    )
    assert bad == []
    assert columns.column("ms").to_pylist() == list(range(100))
    assert columns.slice(0, 1).to_pylist() == [
        {"user": "ann", "ms": 0, "at": CLICK["at"], "price": decimal.Decimal("1.50"),
         "counts": [("x", 1)], "place": {"lat": 47.5}}
    ]  # fmt: skip


def test_both_clients_speak_of_the_same_subjects(server: RegistryServer, theirs: Any) -> None:
    ours = SchemaRegistry(server.url)
    place = Schema(
        '{"type": "record", "name": "Place", "fields": [{"name": "lat", "type": "double"}]}'
    )
    assert ours.register("place-value", place) == theirs.register_schema(
        "place-value", TheirSchema(place.text, "AVRO")
    )
    text = '{"type": "record", "name": "Visit", "fields": [{"name": "at", "type": "Place"}]}'
    visit = Schema(text, references=(SchemaReference("Place", "place-value", 1),))
    schema_id = theirs.register_schema(
        "visit-value", TheirSchema(text, "AVRO", [TheirReference("Place", "place-value", 1)])
    )
    assert ours.look_up("visit-value", visit) == schema_id
    assert ours.version("visit-value").schema == visit
    assert theirs.get_latest_version("visit-value").schema_id == schema_id
    written = AvroSerializer(ours, visit, "visit-value")({"at": {"lat": 1.5}})
    assert AvroDeserializer(theirs)(written, CONTEXT) == {"at": {"lat": 1.5}}
    assert ours.subjects() == theirs.get_subjects() == ["place-value", "visit-value"]
    assert ours.versions("visit-value") == theirs.get_versions("visit-value") == [1]
