"""Topics whose values have schemas: of a registry, and of files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kavka.client import blocking
from kavka.client.schemas import (
    AvroCodec,
    AvroSerializer,
    JsonSerializer,
    ProtobufCodec,
    Schema,
    SchemaDeserializer,
    SchemaRegistry,
)
from kavka.client.schemas.framing import frame
from kavka.sql.errors import SqlError, UndecodableValue
from support.schema_registry import RegistryServer, serve_registry
from support.sql_place import rows, values

if TYPE_CHECKING:
    from pathlib import Path

    from support.sql_place import Open, Place

FIRST = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
SECOND = json.dumps({"type": "record", "name": "R", "fields": [
    {"name": "n", "type": "long"}, {"name": "t", "type": "string", "default": "none"},
]})  # fmt: skip
PROTO = 'syntax = "proto3"; message Other { string x = 1; } message Click { string user = 1; int64 ms = 2; }'


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with serve_registry() as made:
        yield made


def test_the_clients_write_and_read_with_a_registry(place: Place, server: RegistryServer) -> None:
    place.create("clicks")
    registry = SchemaRegistry(server.url)
    writes = AvroSerializer(registry, SECOND, "clicks-value")
    with blocking.Producer(place.settings | {"value.serializer": writes}) as producer:
        producer.send("clicks", {"n": 5, "t": "x"})
    reads = {
        "value.deserializer": SchemaDeserializer(registry),
        "group.id": "g",
        "auto.offset.reset": "earliest",
    }
    with blocking.Consumer(place.settings | reads) as consumer:
        consumer.subscribe(["clicks"])
        (batches,) = consumer.poll(20_000)
        assert [record.value for record in batches.records()] == [{"n": 5, "t": "x"}]


def test_avro_of_several_versions_is_a_table(
    open_session: Open, place: Place, server: RegistryServer
) -> None:
    registry = SchemaRegistry(server.url)
    place.create("avro")
    first = AvroSerializer(registry, FIRST, "avro-value")
    second = AvroSerializer(registry, SECOND, "avro-value")
    written = [first({"n": 1}), None, second({"n": 2, "t": "two"}), first({"n": 3})]
    place.write("avro", written)
    session = open_session({"registry": {"url": server.url}})
    found = rows(session, 'select n, t, typeof(value) k from avro order by "offset"')
    assert found == [
        {"n": 1, "t": "none", "k": "BLOB"}, {"n": None, "t": None, "k": "BLOB"},
        {"n": 2, "t": "two", "k": "BLOB"}, {"n": 3, "t": "none", "k": "BLOB"},
    ]  # fmt: skip
    assert session.note("avro") == "fields: version 2 of subject avro-value"
    assert session.warnings == []


def test_bad_payloads_are_counted_or_end_a_strict_statement(
    open_session: Open, place: Place, server: RegistryServer
) -> None:
    registry = SchemaRegistry(server.url)
    place.create("bad")
    serializer = AvroSerializer(registry, FIRST, "bad-value")
    place.write("bad", [serializer({"n": n}) for n in range(5)])
    place.write("bad", [frame(99, b"x"), b"no frame", frame(1, b"\xff")])
    options = {"registry": {"url": server.url}}
    lenient = open_session(options)
    assert values(lenient, "select sum(n)::int from bad") == [10]
    assert "3 values of bad could not be decoded" in lenient.warnings[0]
    assert "bad-0 at offset 5: schema 99: Schema 99 not found" in lenient.warnings[0]
    strict = open_session(options, is_strict=True)
    with pytest.raises(UndecodableValue, match="bad-0 at offset 5 cannot be decoded: schema 99"):
        values(strict, "select n from bad")


@pytest.mark.parametrize("subject", ["proto-value", "of another strategy"])
def test_protobuf_and_json_are_tables(
    open_session: Open, place: Place, server: RegistryServer, subject: str
) -> None:
    registry = SchemaRegistry(server.url)
    topic = "proto" if subject == "proto-value" else "proto2"
    place.create(topic)
    schema_id = registry.register(subject, Schema(PROTO, "PROTOBUF"))
    codec = ProtobufCodec(PROTO, message="Click")
    place.write(topic, [frame(schema_id, codec.encode({"user": "ann", "ms": n})) for n in range(3)])
    session = open_session({"registry": {"url": server.url}})
    assert rows(session, f'select "user", sum(ms)::int s from {topic} group by 1') == [
        {"user": "ann", "s": 3}
    ]

    place.create(f"{topic}-json")
    text = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    serializer = JsonSerializer(registry, text, f"{topic}-json-value")
    place.write(f"{topic}-json", [serializer({"n": n, "more": 1}) for n in range(3)])
    assert values(session, f'select sum(n)::int from "{topic}-json"') == [3]


def test_a_topic_without_frames_is_read_as_without_a_registry(
    open_session: Open, place: Place, server: RegistryServer
) -> None:
    place.create("plain")
    place.write("plain", [b'{"n": 1}'])
    assert values(open_session({"registry": {"url": server.url}}), "select n from plain") == [1]


@pytest.mark.parametrize("is_framed", [True, False])
def test_schemas_come_from_files(
    open_session: Open, place: Place, tmp_path: Path, is_framed: bool
) -> None:
    avro, proto = tmp_path / "r.avsc", tmp_path / "click.proto"
    avro.write_text(SECOND)
    proto.write_text(PROTO)
    suffix = "framed" if is_framed else "raw"
    payloads = [AvroCodec(SECOND).encode({"n": n, "t": "x"}) for n in range(3)]
    place.create(f"avro-{suffix}")
    place.write(f"avro-{suffix}", [frame(7, one) if is_framed else one for one in payloads])
    click = ProtobufCodec(PROTO, message="Click").encode({"user": "ann", "ms": 5})
    place.create(f"proto-{suffix}")
    place.write(f"proto-{suffix}", [frame(7, click) if is_framed else click[2:]])
    files = {f"avro-{suffix}": str(avro), "": f"{proto}#Click"}
    session = open_session({"schema_files": files})
    assert values(session, f'select sum(n)::int from "avro-{suffix}"') == [3]
    assert rows(session, f'select "user", ms from "proto-{suffix}"') == [{"user": "ann", "ms": 5}]
    assert session.warnings == []


def test_a_registry_that_does_not_answer_is_said(open_session: Open, place: Place) -> None:
    place.create("unread")
    place.write("unread", [frame(1, b"x")])
    session = open_session({"registry": {"url": "http://127.0.0.1:1"}})
    with pytest.raises(SqlError, match="the schema registry does not answer: http://127"):
        session.execute("select * from unread")


def test_values_are_not_bad_because_the_registry_refuses_to_answer(
    open_session: Open, place: Place, server: RegistryServer
) -> None:
    registry = SchemaRegistry(server.url)
    place.create("refused")
    first = AvroSerializer(registry, FIRST, "refused-value")
    second = AvroSerializer(registry, SECOND, "refused-value")
    place.write("refused", [first({"n": 1}), second({"n": 2, "t": "two"})])
    session = open_session({"registry": {"url": server.url}})
    session.table("refused")
    server.fault = (401, b"log in")
    with pytest.raises(SqlError, match="refused cannot be decoded: schema 1: log in"):
        values(session, "select sum(n) from refused")
