"""Columns with a pinned schema: what Spark's workers do with each batch of a column."""

import datetime
import decimal
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.client.schemas import (
    JsonCodec,
    PayloadError,
    ProtobufCodec,
    RegistryError,
    RegistryUnavailable,
    SchemaNotFound,
    SchemaParseError,
)
from kavka.client.schemas.pinned import (
    PinnedColumns,
    PinnedSource,
    pin_file,
    pin_registered,
    pin_subject,
)
from support.examples import examples
from support.schema_registry import RegistryServer, serve_registry
from support.storage_bench import TurnedClock

AVRO = json.dumps({"type": "record", "name": "Click", "fields": [
    {"name": "user", "type": ["null", "string"]}, {"name": "ms", "type": "long"},
    {"name": "counts", "type": {"type": "map", "values": "int"}},
]})  # fmt: skip
WIDER = json.dumps({"type": "record", "name": "Click", "fields": [
    {"name": "ms", "type": "double"}, {"name": "more", "type": "string", "default": "-"},
]})  # fmt: skip
JSON = json.dumps({
    "type": "object", "required": ["user", "geo"],
    "properties": {
        "user": {"type": ["string", "null"]}, "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"}, "n": {"type": "number"},
        "geo": {"$ref": "#/definitions/geo"}, "free": {"type": "object"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "definitions": {"geo": {"type": "object", "properties": {"lat": {"type": "number"}}}},
})  # fmt: skip
PROTO = """
syntax = "proto3";
package test;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Click {
  string user = 1;
  optional int64 ms = 2;
  google.protobuf.Timestamp at = 3;
  repeated string tags = 4;
  map<string, Place> places = 5;
  Kind kind = 6;
  repeated Place more = 7;
  uint64 large = 8;
  google.protobuf.Int32Value wrapped = 9;
  Click inner = 10;
  map<string, int32> counts = 11;
  message Place { double lat = 1; }
}
enum Kind { A = 0; B = 1; }
"""


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with serve_registry() as made:
        yield made


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in {
        "click.avsc": AVRO,
        "wider.avsc": WIDER,
        "click.json": JSON,
        "click.proto": PROTO,
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_values_are_written_and_read_without_a_request(server: RegistryServer, files: Path) -> None:
    pinned = pickle.loads(
        pickle.dumps(pin_registered(server.url, "clicks-value", files / "click.avsc"))
    )
    requests = len(server.requests)
    columns = PinnedColumns(pinned)
    rows: list[dict[str, Any] | None] = [
        {"user": "ann", "ms": 5, "counts": {"a": 1}},
        None,
        {"user": None, "ms": 6, "counts": {}},
    ]
    kind = pa.struct(list(columns.schema))
    payloads, bad = columns.encode(
        pa.array(
            [one and {**one, "counts": list(one["counts"].items())} for one in rows],
            kind,
        )
    )
    assert not bad
    assert payloads[0].as_py() == b"\0\0\0\0\1\2\6ann\x0a\2\2a\2\0"
    assert payloads[1].as_py() is None
    decoded = columns.decode(payloads)
    assert not decoded.bad
    assert decoded.columns.column("ms").to_pylist() == [5, None, 6]
    assert len(server.requests) == requests


def test_another_version_is_asked_for_once_and_an_unknown_id_not_for_each_value(
    server: RegistryServer, files: Path
) -> None:
    first = pin_registered(server.url, "clicks-value", files / "click.avsc")
    wide = pin_registered(server.url, "clicks-value", files / "wider.avsc")
    old = PinnedColumns(first).encode(
        pa.array([{"user": "a", "ms": 5, "counts": []}] * 3, pa.struct(list(PinnedColumns(first).schema)))
    ).payloads  # fmt: skip
    unknown = [b"\0\0\0\0" + bytes([n]) for n in (77, 78, 77)]
    values = pa.concat_arrays([old, pa.array(unknown, pa.binary())])
    server.requests.clear()
    reader = PinnedColumns(wide)
    for _ in range(3):
        decoded = reader.decode(values)
        assert decoded.columns.column("ms").to_pylist() == [5.0, 5.0, 5.0, None, None, None]
        assert decoded.columns.column("more").to_pylist()[:3] == ["-"] * 3
        bad = [(one.row, one.reason[:9]) for one in decoded.bad]
        assert bad == [(3, "schema 77"), (4, "schema 78"), (5, "schema 77")]
    # The first schema is known to this process's client since it was registered.
    assert [path for _, path, _ in server.requests] == ["/schemas/ids/77", "/schemas/ids/78"]


def test_an_unknown_id_is_asked_for_again_later(server: RegistryServer, files: Path) -> None:
    pinned = pin_registered(server.url, "clicks-value", files / "click.avsc")
    clock = TurnedClock()
    source = PinnedSource(pinned, clock)
    for later_ms, requests in ((0, 2), (29_000, 2), (2_000, 3)):
        clock.now += later_ms
        with pytest.raises(SchemaNotFound, match="schema 9"):
            source.schema(9)
        assert len(server.requests) == requests


@pytest.mark.parametrize(
    ("fault", "error"),
    [((401, b"no"), RegistryError), ((503, b"no"), RegistryUnavailable)],
)
def test_values_are_not_bad_because_the_registry_does_not_answer(
    server: RegistryServer, files: Path, fault: tuple[int, bytes], error: type[Exception]
) -> None:
    columns = PinnedColumns(pin_registered(server.url, "clicks-value", files / "click.avsc"))
    server.fault = fault
    with pytest.raises(error):
        columns.decode(pa.array([b"\0\0\0\0\7x"], pa.binary()))


def test_failures_have_the_class_and_the_stack_of_their_cause(files: Path) -> None:
    columns = PinnedColumns(pin_file(files / "click.avsc", framed=True, schema_id=7))
    values = pa.array([b"junk", None, b"\0\0\0\0\7"], pa.binary())
    decoded = columns.decode(values)
    frame, payload = columns.failures(values, decoded.bad)
    assert (frame.row, frame.kind) == (0, "kavka.client.schemas.errors.FramingError")
    assert frame.reason == "it has 4 bytes, less than the 5 of a frame"
    assert payload.row == 2
    assert "EOFError" in payload.stack
    assert "PayloadError: a value with schema 7" in payload.stack


def test_json_objects_are_those_of_the_schema(files: Path) -> None:
    pinned = pin_file(files / "click.json")
    moment = datetime.datetime(2026, 11, 26, 3, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))  # fmt: skip
    kind = pa.struct([
        ("user", pa.string()), ("at", pa.timestamp("us", "Europe/Berlin")), ("day", pa.date32()),
        ("n", pa.decimal128(9, 2)),
        ("geo", pa.struct([("lat", pa.float64()), ("lon", pa.float64())])), ("free", pa.string()),
        ("tags", pa.list_(pa.string())), ("other", pa.map_(pa.string(), pa.int32())),
    ])  # fmt: skip
    row = {"user": None, "at": moment, "day": moment.date(), "n": decimal.Decimal("1.50"),
           "geo": {"lat": 1.0, "lon": None}, "free": '{"a": [1]}', "tags": ["x"], "other": [("k", 1)]}  # fmt: skip
    payloads, bad = PinnedColumns(pinned).encode(pa.array([row], kind))
    assert not bad
    assert json.loads(payloads[0].as_py()) == {
        "user": None, "at": "2026-11-26T02:00:00Z", "day": "2026-11-26", "n": 1.5,
        "geo": {"lat": 1.0}, "free": {"a": [1]}, "tags": ["x"], "other": {"k": 1},
    }  # fmt: skip
    decoded = PinnedColumns(pinned).decode(payloads)
    assert decoded.columns.to_pylist()[0]["free"] == '{"a": [1]}'


def test_rows_that_do_not_fit_are_listed(files: Path) -> None:
    columns = PinnedColumns(pin_file(files / "click.json"))
    rows = pa.array([{"geo": None, "user": "a"}, {"geo": {"lat": 1.0}, "user": None}])
    payloads, bad = columns.encode(rows)
    assert payloads[0].as_py() is None
    assert payloads[1].as_py() == b'{"geo": {"lat": 1.0}, "user": null}'
    assert [one.row for one in bad] == [0]
    assert "None is not of type 'object'" in bad[0].reason
    unchecked = PinnedColumns(pin_file(files / "click.json", validate_json=False))
    assert not unchecked.encode(rows).bad
    column = pa.array([{"b": b"\xff"}])
    assert "field b is not UTF-8 at byte 0" in JsonCodec("{}").encode_column(column).bad[0].reason


ROW = {
    "user": "ann", "ms": 5, "at": datetime.datetime(2026, 11, 26, 2, 0, 0, 7, datetime.UTC), "tags": ["x", "y"],
    "places": {"home": {"lat": 1.5}}, "kind": "B", "more": [{"lat": 2.5}], "large": decimal.Decimal(2**64 - 1),
    "wrapped": 0, "inner": '{"user": "bob"}', "counts": {"a": 1},
}  # fmt: skip


def test_a_message_is_its_row_again() -> None:
    codec = ProtobufCodec(PROTO)
    payload = codec.encode_row(ROW)
    assert codec.row(payload) == {**ROW, "large": 2**64 - 1}
    assert codec.decode(payload).inner.user == "bob"
    empty = codec.row(codec.encode_row(dict.fromkeys(ROW)))
    assert (empty["ms"], empty["at"], empty["wrapped"], empty["user"]) == (None, None, None, "")


def test_a_message_that_has_no_row_is_a_bad_payload() -> None:
    codec = ProtobufCodec(PROTO)
    message = codec.message_class()()
    message.at.seconds = 10**12
    with pytest.raises(PayloadError, match="has no row"):
        codec.row(codec.encode(message))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"nosuch": 1}, "has no field nosuch"),
        ({"ms": "x"}, "field ms is 'x'"),
        ({"kind": "C"}, "field kind is 'C'"),
        ({"inner": "{"}, "field inner is '{'"),
        ({"places": {"home": {"lat": "x"}}}, "field lat is 'x'"),
        ({"at": 5}, "field at is 5"),
    ],
)
def test_rows_that_fit_no_message_are_refused(row: dict[str, object], reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        ProtobufCodec(PROTO).encode_row(row)


def test_messages_without_frames_have_no_indexes(files: Path) -> None:
    columns = PinnedColumns(pin_file(f"{files / 'click.proto'}#Place"))
    payloads, _ = columns.encode(pa.array([{"lat": 1.5}]))
    assert payloads[0].as_py()[:1] == b"\x09"
    assert columns.decode(payloads).columns.to_pylist() == [{"lat": 1.5}]


def test_what_is_no_schema_file_is_refused(files: Path) -> None:
    with pytest.raises(SchemaParseError, match=r"none of \.avsc, \.proto, \.json"):
        pin_file(files / "click.txt")
    with pytest.raises(FileNotFoundError):
        pin_file(files / "missing.avsc")
    with pytest.raises(SchemaParseError, match="no message Nosuch"):
        pin_file(f"{files / 'click.proto'}#Nosuch")


def test_a_subject_is_pinned_with_its_references(server: RegistryServer, files: Path) -> None:
    from kavka.client.schemas import Schema, SchemaReference, SchemaRegistry

    registry = SchemaRegistry(server.url)
    place = '{"type": "record", "name": "Place", "fields": [{"name": "lat", "type": "double"}]}'
    registry.register("place", Schema(place))
    text = '{"type": "record", "name": "R", "fields": [{"name": "at", "type": "Place"}]}'
    registry.register("r-value", Schema(text, "AVRO", (SchemaReference("Place", "place", 1),)))
    pinned = pin_subject({"url": server.url, "request.timeout.ms": 9000}, "r-value")
    server.fault = (500, b"down")
    columns = PinnedColumns(pinned)
    payloads, _ = columns.encode(pa.array([{"at": {"lat": 1.5}}]))
    assert columns.decode(payloads).columns.to_pylist() == [{"at": {"lat": 1.5}}]


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> list[PinnedColumns]:
    """Columns of all kinds, with frames."""
    directory = tmp_path_factory.mktemp("schemas")
    made = []
    for name, text in (("c.avsc", AVRO), ("c.json", JSON), ("c.proto", PROTO)):
        (directory / name).write_text(text)
        made.append(PinnedColumns(pin_file(directory / name, framed=True, schema_id=7)))
    return made


@given(st.lists(st.none() | st.binary(max_size=40), max_size=6))
@settings(max_examples=examples(300))
def test_whatever_the_bytes_are_each_value_has_a_row(
    readers: list[PinnedColumns], payloads: list[bytes | None]
) -> None:
    framed = [one and b"\0\0\0\0\7" + one for one in payloads]
    values = pa.array([*payloads, *framed], pa.binary())
    for reader in readers:
        decoded = reader.decode(values)
        assert decoded.columns.num_rows == len(values)
        failures = reader.failures(values, decoded.bad)
        assert all(one.reason and values[one.row].is_valid for one in failures)
