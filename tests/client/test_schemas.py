from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.client.schemas import (
    AvroCodec,
    AvroSerializer,
    ColumnDecoder,
    FramingError,
    IncompatibleSchema,
    JsonCodec,
    JsonSerializer,
    PayloadError,
    ProtobufCodec,
    RegistryError,
    RegistryUnavailable,
    Schema,
    SchemaDeserializer,
    SchemaFiles,
    SchemaNotFound,
    SchemaParseError,
    SchemaReference,
    SchemaRegistry,
)
from kavka.client.schemas.framing import decode_indexes, encode_indexes, frame, unframe
from support.schema_registry import RegistryServer, serve_registry

AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}, {"name": "t", "type": "string"}]}'
AVRO_2 = json.dumps({"type": "record", "name": "R", "fields": [
    {"name": "n", "type": "double"}, {"name": "more", "type": ["null", "int"], "default": None},
]})  # fmt: skip
PROTO = """
syntax = "proto3";
package test;
import "google/protobuf/timestamp.proto";
message Click {
  string user = 1;
  optional int64 ms = 2;
  google.protobuf.Timestamp at = 3;
  repeated string tags = 4;
  map<string, int32> counts = 5;
  Kind kind = 6;
  Place place = 7;
  oneof which { string one = 8; uint64 other = 9; }
  bytes raw = 10;
  Click inner = 11;
  message Place { double lat = 1; }
}
enum Kind { A = 0; B = 1; }
message Second { int32 n = 1; }
"""


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with serve_registry() as made:
        yield made


# Framing


def test_a_frame_is_a_zero_and_the_id_in_four_bytes() -> None:
    assert frame(258, b"x") == b"\0\0\0\1\2x"
    assert unframe(b"\0\0\0\1\2x") == (258, b"x")
    with pytest.raises(FramingError, match="it has 4 bytes, less than the 5 of a frame"):
        unframe(b"\0\0\0\1")
    with pytest.raises(FramingError, match="it begins with byte 123, not with the 0"):
        unframe(b'{"a": 1}')


@pytest.mark.parametrize(
    ("indexes", "data"),
    [((0,), b"\0"), ((1,), b"\2\2"), ((0, 0), b"\4\0\0"), ((2, 300), b"\4\4\xd8\4")],
)
def test_indexes_of_a_message_are_zigzag_varints(indexes: tuple[int, ...], data: bytes) -> None:
    assert encode_indexes(indexes) == data
    assert decode_indexes(data + b"rest") == (indexes, len(data))


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=10))
def test_indexes_are_read_as_they_were_written(indexes: list[int]) -> None:
    assert decode_indexes(encode_indexes(tuple(indexes)))[0] == tuple(indexes)


@given(st.binary(max_size=20))
def test_bytes_that_are_no_indexes_are_refused(data: bytes) -> None:
    try:
        indexes, end = decode_indexes(data)
    except FramingError:
        return
    assert all(index >= 0 for index in indexes)
    assert 0 < end <= len(data)


# The registry


def test_a_schema_is_asked_for_once(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    serializer = AvroSerializer(registry, AVRO, "clicks/value")
    data = [serializer({"n": n, "t": "x"}) for n in range(3)]
    assert [(method, path) for method, path, _ in server.requests] == [
        ("POST", "/subjects/clicks%2Fvalue/versions")
    ]
    deserializer = SchemaDeserializer(SchemaRegistry(server.url))
    assert [deserializer(one)["n"] for one in data] == [0, 1, 2]
    assert [one[:2] for one in server.requests[1:]] == [("GET", "/schemas/ids/1")]
    assert (serializer(None), deserializer(None)) == (None, None)


def test_subjects_versions_and_compatibility(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    first, second = Schema(AVRO), Schema(AVRO_2)
    assert registry.register("a", first) == 1
    assert registry.register("a", second) == 2
    assert registry.register("b", second) == 2
    assert registry.versions("a") == [1, 2]
    assert registry.version("a", 1).schema == first
    assert (registry.version("a").version, registry.version("a").schema_id) == (2, 2)
    assert registry.subjects() == ["a", "b"]
    assert registry.incompatibilities("a", first) == []
    server.incompatible.add("a")
    assert registry.incompatibilities("a", first) == ["a field is missing"]
    with pytest.raises(
        IncompatibleSchema, match="subject a: Schema being registered is incompatible"
    ):
        registry.register("a", Schema('"string"'))
    registry.set_compatibility("FULL", "a")
    assert (registry.compatibility("a"), registry.compatibility()) == ("FULL", "BACKWARD")
    assert registry.delete("a") == [1, 2]
    with pytest.raises(SchemaNotFound):
        registry.version("a")


def test_a_schema_may_refer_to_others(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    inner = '{"type": "record", "name": "I", "fields": [{"name": "n", "type": "int"}]}'
    registry.register("inner", Schema(inner))
    outer = Schema(
        '{"type": "record", "name": "O", "fields": [{"name": "i", "type": "I"}]}',
        references=(SchemaReference("I", "inner", 1),),
    )
    data = AvroSerializer(registry, outer, "outer")({"i": {"n": 5}})
    assert SchemaDeserializer(SchemaRegistry(server.url))(data) == {"i": {"n": 5}}


def test_without_registering_the_subject_must_have_the_schema(server: RegistryServer) -> None:
    serializer = AvroSerializer(SchemaRegistry(server.url), AVRO, "a", register=False)
    with pytest.raises(
        SchemaNotFound, match=r"subject a: Subject 'a' not found. \(error code 40401\)"
    ):
        serializer({"n": 1, "t": "x"})
    SchemaRegistry(server.url).register("a", Schema(AVRO))
    assert serializer({"n": 1, "t": "x"}) == b"\0\0\0\0\1\2\2x"


def test_credentials_are_sent(server: RegistryServer) -> None:
    SchemaRegistry({"url": server.url, "basic.auth.user.info": "ann:s3:t"}).subjects()
    sent = base64.b64encode(b"ann:s3:t").decode()
    assert server.requests[-1][2]["Authorization"] == f"Basic {sent}"
    SchemaRegistry({"url": server.url, "bearer.auth.token": "abc"}).subjects()
    assert server.requests[-1][2]["Authorization"] == "Bearer abc"


def test_the_next_server_is_asked_when_one_does_not_answer(server: RegistryServer) -> None:
    assert SchemaRegistry(f"http://127.0.0.1:1, {server.url}/").subjects() == []
    with serve_registry() as broken:
        broken.fault = (500, b'{"error_code": 50001, "message": "store"}')
        assert SchemaRegistry(f"{broken.url},{server.url}").subjects() == []
        with pytest.raises(
            RegistryUnavailable, match=r"the schema registry does not answer: .*store"
        ):
            SchemaRegistry(broken.url).subjects()
    with pytest.raises(RegistryUnavailable, match=r"http://127\.0\.0\.1:1: .*refused"):
        SchemaRegistry("http://127.0.0.1:1").subjects()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ((401, b"<html>login</html>"), "the subjects: <html>login</html>"),
        ((200, b"<html>"), "the answer is no JSON: is it a registry"),
        (
            (422, b'{"error_code": 42201, "message": "Invalid schema"}'),
            r"Invalid schema \(error code 42201\)",
        ),
    ],
)
def test_a_refusal_says_what_was_refused(
    server: RegistryServer, fault: tuple[int, bytes], reason: str
) -> None:
    server.fault = fault
    with pytest.raises(RegistryError, match=reason):
        SchemaRegistry(server.url).subjects()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("localhost:8081", "is no URL of a schema registry"),
        ("http://anna:pw@localhost:8081", "give basic.auth.user.info"),
        ({"url": "http://a", "basic.auth.user": "x"}, "basic.auth.user is no setting"),
        (
            {"url": "https://a", "ssl.ca.location": "/nosuch"},
            "certificate of the schema registry cannot be read",
        ),
    ],
)
def test_wrong_settings_are_refused(settings: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        SchemaRegistry(settings)


# Values


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (b"\1\0\0\0\1x", FramingError, "begins with byte 1"),
        (b"\0\0\0\0\7x", SchemaNotFound, "schema 7: Schema 7 not found"),
        (
            b"\0\0\0\0\1\2",
            PayloadError,
            "a value with schema 1: it is no value of the Avro schema: EOFError",
        ),
        (b"\0\0\0\0\1\2\2xy", PayloadError, "1 bytes are behind the value"),
        (
            b"\0\0\0\0\1\2\2\xff",
            PayloadError,
            "it is no value of the Avro schema: UnicodeDecodeError",
        ),
        (b"\0\0\0\0\2{", PayloadError, "a value with schema 2: it is no JSON"),
        (
            b'\0\0\0\0\2{"n": "x"}',
            PayloadError,
            "it does not fit the JSON schema: 'x' is not of type 'integer'",
        ),
        (b"\0\0\0\0\3", FramingError, "ends within its message indexes"),
        (b"\0\0\0\0\3\2\x10", FramingError, r"no message with the indexes \[8\]"),
        (b"\0\0\0\0\3\0\x0a\x05a", PayloadError, "it is no message test.Click"),
    ],
)
def test_bad_payloads_are_named(
    server: RegistryServer, data: bytes, kind: type[Exception], reason: str
) -> None:
    registry = SchemaRegistry(server.url)
    registry.register("a", Schema(AVRO))
    registry.register("b", Schema('{"properties": {"n": {"type": "integer"}}}', "JSON"))
    registry.register("c", Schema(PROTO, "PROTOBUF"))
    with pytest.raises(kind, match=reason):
        SchemaDeserializer(registry)(data)


def test_values_that_do_not_fit_are_not_written(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    with pytest.raises(PayloadError, match="the value does not fit the Avro schema"):
        AvroSerializer(registry, AVRO, "a")({"n": "x", "t": "x"})
    with pytest.raises(
        PayloadError, match="the value does not fit the JSON schema: 'x' is not of type"
    ):
        JsonSerializer(registry, '{"properties": {"n": {"type": "integer"}}}', "b")({"n": "x"})
    with pytest.raises(PayloadError, match="the value does not fit the Protobuf schema"):
        ProtobufCodec(PROTO).encode({"nosuch": 1})
    assert server.requests == []


def test_json_is_not_checked_where_that_is_not_wanted(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    text = '{"properties": {"n": {"type": "integer"}}}'
    data = JsonSerializer(registry, text, "b", validate_json=False)({"n": "x"})
    assert SchemaDeserializer(registry, validate_json=False)(data) == {"n": "x"}
    with pytest.raises(PayloadError, match="'x' is not of type 'integer'"):
        SchemaDeserializer(registry)(data)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: AvroCodec("{"), "the Avro schema cannot be parsed"),
        (lambda: AvroCodec('{"type": "nosuch"}'), "the Avro schema cannot be parsed: .*nosuch"),
        (lambda: AvroCodec('"string"').arrow_schema(), "the Avro schema is not of a record"),
        (lambda: JsonCodec("{"), "the JSON schema cannot be parsed"),
        (lambda: JsonCodec('{"type": 5}'), "the JSON schema cannot be parsed"),
        (lambda: ProtobufCodec("message {"), "the Protobuf schema cannot be parsed"),
        (lambda: ProtobufCodec('syntax = "proto3";'), "the Protobuf schema has no message"),
        (
            lambda: ProtobufCodec(PROTO, message="Nosuch"),
            "the Protobuf schema has no message Nosuch",
        ),
        (lambda: ProtobufCodec(PROTO, {"../x.proto": ""}), r"imports a file \.\./x\.proto"),
    ],
)
def test_schemas_that_are_none_are_refused(make: Any, reason: str) -> None:
    with pytest.raises(SchemaParseError, match=reason):
        make()


def test_a_reader_sees_older_values_by_avros_rules(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    data = AvroSerializer(registry, AVRO, "a")({"n": 1, "t": "x"})
    assert SchemaDeserializer(registry, reader=AVRO_2)(data) == {"n": 1.0, "more": None}


def test_schemas_may_come_from_files() -> None:
    files = SchemaFiles(Schema(AVRO), {7: Schema(AVRO_2)})
    deserializer = SchemaDeserializer(files)
    assert deserializer(frame(3, b"\2\2x")) == {"n": 1, "t": "x"}
    assert deserializer(frame(7, AvroCodec(AVRO_2).encode({"n": 1.5}))) == {"n": 1.5, "more": None}
    with pytest.raises(SchemaNotFound, match="schema 1: no file is given for it"):
        SchemaDeserializer(SchemaFiles())(frame(1, b""))


# Columns


def test_a_column_has_values_of_several_schemas_and_bad_ones() -> None:
    files = SchemaFiles(by_id={1: Schema(AVRO), 2: Schema(AVRO_2)})
    first, second = AvroCodec(AVRO), AvroCodec(AVRO_2)
    values = [
        frame(1, first.encode({"n": 1, "t": "a"})), None, frame(2, second.encode({"n": 2.5, "more": 7})),
        b"junk", frame(9, b"x"), frame(1, b"\2"), frame(1, first.encode({"n": 3, "t": "c"})),
    ]  # fmt: skip
    decoder = ColumnDecoder(SchemaDeserializer(files), second)
    columns, bad = decoder.decode(pa.array(values, pa.binary()), ["more", "n"])
    assert columns.schema.names == ["more", "n"]
    assert columns.column("n").to_pylist() == [1.0, None, 2.5, None, None, None, 3.0]
    assert columns.column("more").to_pylist() == [None, None, 7, None, None, None, None]
    assert [one.row for one in bad] == [3, 4, 5]
    assert "begins" in bad[0].reason or "less than" in bad[0].reason
    assert "schema 9" in bad[1].reason


@pytest.mark.parametrize("count", [0, 1, 2])
def test_columns_of_few_values(count: int) -> None:
    codec = AvroCodec(AVRO)
    values = pa.array([frame(1, codec.encode({"n": 1, "t": "a"}))] * count, pa.binary())
    decoder = ColumnDecoder(SchemaDeserializer(SchemaFiles(Schema(AVRO))), codec)
    columns, bad = decoder.decode(values, ["n"])
    assert (columns.to_pylist(), bad) == ([{"n": 1}] * count, [])
    assert decoder.decode(pa.nulls(count, pa.binary()), ["n"]).columns.num_rows == count


def test_avro_types_as_columns() -> None:
    text = json.dumps({"type": "record", "name": "A", "fields": [
        {"name": "u", "type": ["null", "int", "string"]},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "float"}}},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "next", "type": ["null", "A"], "default": None},
    ]})  # fmt: skip
    codec = AvroCodec(text)
    row = {
        "u": 5,
        "m": {"k": [1.5]},
        "f": b"ab",
        "id": "6e35cf3f-1b1b-4b6f-9d3e-0f5a4a3b2c1d",
        "next": None,
    }
    columns, bad = codec.decode_columns(
        pa.array([codec.encode(row | {"next": row})], pa.binary()), codec.arrow_schema()
    )
    (found,) = columns.to_pylist()
    assert bad == []
    assert (found["u"], found["m"], found["f"], found["id"]) == (
        "5",
        [("k", [1.5])],
        b"ab",
        row["id"],
    )
    assert json.loads(found["next"])["u"] == 5


def test_protobuf_types_as_columns() -> None:
    codec = ProtobufCodec(PROTO)
    message = codec.message_class()(
        user="ann", ms=0, tags=["a"], counts={"x": 1}, kind=1, place={"lat": 1.5}, other=2**63, raw=b"\xff",
        at={"seconds": 5, "nanos": 7000}, inner={"user": "bob"},
    )  # fmt: skip
    payloads = [codec.encode(message), codec.encode({}), None, b"\0\x0a"]
    columns, bad = codec.decode_columns(pa.array(payloads, pa.binary()), codec.arrow_schema())
    first, empty, null, broken = columns.to_pylist()
    assert first.pop("at").isoformat() == "1970-01-01T00:00:05.000007+00:00"
    assert json.loads(first.pop("inner")) == {"user": "bob"}
    assert first == {
        "user": "ann", "ms": 0, "tags": ["a"], "counts": [("x", 1)], "kind": "B", "place": {"lat": 1.5},
        "one": None, "other": 2**63, "raw": b"\xff",
    }  # fmt: skip
    assert (empty["user"], empty["ms"], empty["place"], empty["kind"], empty["other"]) == (
        "",
        None,
        None,
        "A",
        None,
    )
    assert set(null.values()) == set(broken.values()) == {None}
    assert [one.row for one in bad] == [3]
    second = ProtobufCodec(PROTO, message="Second")
    assert second.encode({"n": 5}) == b"\2\2\x08\5"
    assert second.decode(b"\2\2\x08\5").n == 5
