"""Serializers with their context, errors that name the record, JSON of dataclasses and models, headers."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from typing import Any, Literal

import pydantic
import pytest

from kavka.client import (
    KafkaError,
    PlainJsonDeserializer,
    PlainJsonSerializer,
    RecordDeserializationError,
    RecordSerializationError,
    SerializationContext,
    TopicPartition,
    blocking,
)
from kavka.client.config import CONSUMER, PRODUCER, Config
from kavka.client.serialization import field_function

AT = TopicPartition("t", 0)
READING = {"auto.offset.reset": "earliest"}


def read(broker: Any, settings: dict[str, Any], count: int = 1) -> list[Any]:
    with blocking.Consumer(settings | READING, network=broker) as consumer:
        consumer.assign([AT])
        return [next(consumer) for _ in range(count)]


def test_serializers_get_topic_field_and_headers_and_may_add_headers(broker, settings):
    seen = []

    def serialize(value: str, context: SerializationContext) -> bytes:
        seen.append((context.topic, context.field, list(context.headers), context.partition))
        context.add_header(f"{context.field}-kind", b"text")
        return value.encode()

    more = settings | {"key.serializer": serialize, "value.serializer": serialize}
    with blocking.Producer(more, network=broker) as producer:
        producer.send("t", "v", "k", headers={"h": b"1"}, partition=0)
    assert seen == [
        ("t", "key", [("h", b"1")], 0),
        ("t", "value", [("h", b"1"), ("key-kind", b"text")], 0),
    ]

    def deserialize(data: bytes, ctx: SerializationContext) -> tuple[object, ...]:
        return data, ctx.field, dict(ctx.headers)["key-kind"], ctx.partition, ctx.offset

    functions = {"key.deserializer": deserialize, "value.deserializer": deserialize}
    [record] = read(broker, settings | functions)
    assert record.key == (b"k", "key", b"text", 0, 0)
    assert record.value == (b"v", "value", b"text", 0, 0)
    assert record.headers == (("h", b"1"), ("key-kind", b"text"), ("value-kind", b"text"))


@pytest.mark.parametrize("given", [{"a": b"1", "b": None}, [("a", b"1"), ("b", None)]])
def test_headers_are_a_dictionary_or_pairs(broker, settings, given):
    with blocking.Producer(settings, network=broker) as producer:
        producer.send("t", b"v", headers=given)
        producer.append("t", b"v", headers=given)
    assert [record.headers for record in read(broker, settings, 2)] == [
        (("a", b"1"), ("b", None))
    ] * 2


class OfKafkaPython:
    """A serializer by kafka-python's interface."""

    def serialize(self, topic: str, headers: list[tuple[str, bytes]], data: str) -> bytes:
        return f"{topic} {data}".encode()

    def deserialize(self, topic: str, headers: object, data: bytes) -> str:
        return data.decode().removeprefix(f"{topic} ")


def test_serializers_of_kafka_python_are_understood(broker, settings):
    with blocking.Producer(settings | {"value.serializer": OfKafkaPython()}, network=broker) as one:
        one.send("t", "v")
    assert broker.records("t") == [(0, None, b"t v")]
    [record] = read(broker, settings | {"value.deserializer": OfKafkaPython()})
    assert record.value == "v"


@pytest.mark.parametrize(
    ("function", "is_with_context"),
    [
        (str.encode, False),
        (bytes.decode, False),
        (json.loads, False),
        (int, False),
        (lambda value, encoding="utf-8": value, False),
        (lambda value, ctx=None: value, True),
        (lambda value, where: value, True),
        (PlainJsonSerializer(), False),
    ],
)
def test_a_context_is_given_where_a_second_argument_is_for_it(function, is_with_context):
    config = Config(PRODUCER, {"bootstrap.servers": "a:1", "value.serializer": function})
    assert field_function(config, "value.serializer").wants_context is is_with_context


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("String", "é", "é".encode()),
        ("Integer", -2, b"\xff\xff\xff\xfe"),
        ("Long", 1, bytes(7) + b"\1"),
        ("Short", 258, b"\1\2"),
        ("Double", 1.0, b"\x3f\xf0" + bytes(6)),
        ("Float", 1.0, b"\x3f\x80\0\0"),
        ("UUID", uuid.UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
        ("ByteArray", b"x", b"x"),
    ],
)
def test_javas_common_classes_go_by_name(broker, settings, name, value, data):
    package = "org.apache.kafka.common.serialization."
    writing = settings | {"value.serializer": f"{package}{name}Serializer"}
    with blocking.Producer(writing, network=broker) as producer:
        producer.send("t", value)
        producer.send("t", None)
    assert broker.records("t") == [(0, None, data), (1, None, None)]
    reading = settings | {"value.deserializer": f"{package}{name}Deserializer"}
    assert [record.value for record in read(broker, reading, 2)] == [value, None]


def test_a_number_of_another_size_is_refused():
    config = Config(CONSUMER, {"bootstrap.servers": "a:1", "key.deserializer": "LongDeserializer"})
    with pytest.raises(ValueError, match="Long has 8 bytes, not 4"):
        field_function(config, "key.deserializer").call(b"1234")


def test_errors_name_the_record(broker, settings):
    with blocking.Producer(
        settings | {"value.serializer": PlainJsonSerializer()}, network=broker
    ) as p:
        with pytest.raises(RecordSerializationError) as refused:
            p.send("t", object(), b"k" * 100, partition=0)
        p.append("t", {1j: 1}, b"c")
        with pytest.raises(RecordSerializationError, match="for topic t, key b'c' was not"):
            p.flush()
    assert str(refused.value).startswith(
        "the value of a record for topic t, partition 0, key b'"
        + "k" * 58
        + "... was not serialized: "
    )
    assert isinstance(refused.value.__cause__, TypeError)
    assert (refused.value.topic, refused.value.field) == ("t", "value")
    with blocking.Producer(settings, network=broker) as p:
        with pytest.raises(
            TypeError, match=r"set value.serializer \(a record for topic t, key b'k'"
        ):
            p.send("t", {}, b"k")
        with pytest.raises(KafkaError, match="configuration: a record for topic t, key b'k'"):
            p.send("t", bytes(2**21), b"k")


def test_a_record_that_was_not_read_comes_with_its_error(broker, settings):
    with blocking.Producer(settings, network=broker) as producer:
        producer.send("t", b"no JSON", b"k", headers={"h": b"1"})
    with pytest.raises(RecordDeserializationError) as failed:
        read(broker, settings | {"value.deserializer": PlainJsonDeserializer()})
    record = failed.value.record
    assert (record.offset, record.key, record.value) == (0, b"k", b"no JSON")
    assert record.headers == (("h", b"1"),)


class Kind(enum.Enum):
    TEA = "tea"


@dataclasses.dataclass
class Line:
    kind: Kind
    price: decimal.Decimal
    note: str | None = None


@dataclasses.dataclass
class Order:
    number: int
    at: datetime.datetime
    lines: list[Line]
    tags: dict[str, float]
    side: Literal["buy", "sell"] = "buy"


ORDER = Order(
    7,
    datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    [Line(Kind.TEA, decimal.Decimal("1.10")), Line(Kind.TEA, decimal.Decimal(2), "é")],
    {"a": 1.0},
)


def test_dataclasses_are_written_and_read_as_json():
    data = PlainJsonSerializer()(ORDER)
    assert data is not None
    assert json.loads(data)["lines"][0] == {"kind": "tea", "price": "1.10", "note": None}
    assert PlainJsonDeserializer(Order)(data) == ORDER
    assert PlainJsonDeserializer(Order)(None) is None
    assert PlainJsonDeserializer()(data) == json.loads(data)
    assert PlainJsonSerializer()(None) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"number": "7"}, "Order.number: '7' is no int"),
        ({"number": True}, "Order.number: True is no int"),
        (
            {"lines": [{"kind": "cup", "price": "1"}]},
            r"Order.lines\[0\].kind: 'cup' is not a valid",
        ),
        ({"lines": [{"kind": "tea"}]}, r"Order.lines\[0\]: .*missing 1 required.*'price'"),
        ({"side": "hold"}, "Order.side"),
        ({"at": "soon"}, "Order.at: Invalid isoformat"),
    ],
)
def test_a_value_that_is_no_such_dataclass_says_where(change, reason):
    given = json.loads(PlainJsonSerializer()(ORDER) or b"") | change
    with pytest.raises(ValueError, match=reason):
        PlainJsonDeserializer(Order)(json.dumps(given).encode())


def test_what_json_cannot_say_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        PlainJsonSerializer()(float("nan"))
    with pytest.raises(TypeError, match="JSON has no object"):
        PlainJsonSerializer()({"a": object()})
    with pytest.raises(TypeError, match="TypeAdapter"):
        PlainJsonDeserializer(list[int])


class Click(pydantic.BaseModel):
    user: str
    at: datetime.datetime


def test_models_of_pydantic_are_written_and_read():
    click = Click(user="ann", at=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))
    data = PlainJsonSerializer()(click)
    assert data == b'{"user":"ann","at":"2026-01-02T00:00:00Z"}'
    assert PlainJsonDeserializer(Click)(data) == click
    assert PlainJsonSerializer()([click]) == b"[" + data + b"]"
    clicks = PlainJsonDeserializer(pydantic.TypeAdapter(list[Click]))
    assert clicks(b"[" + data + b"]") == [click]
    with pytest.raises(ValueError, match="user"):
        PlainJsonDeserializer(Click)(b"{}")
