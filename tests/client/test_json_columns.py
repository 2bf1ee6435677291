from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.client.schemas.errors import SchemaParseError
from kavka.client.schemas.json_columns import _decode_block, _decode_rows, decode_json
from kavka.client.schemas.json_schema import infer_schema, schema_of_json_schema
from support.examples import examples

SCHEMA = pa.schema([
    ("n", pa.int64()), ("x", pa.float64()), ("t", pa.string()), ("b", pa.bool_()),
    ("s", pa.struct([("y", pa.float64()), ("name", pa.string())])), ("l", pa.list_(pa.int64())),
    ("at", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("m", pa.map_(pa.string(), pa.int64())),
])  # fmt: skip


def decoded(*values: bytes | None) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """Return rows without their nulls, and what was wrong with which."""
    columns, bad = decode_json(pa.array(values, pa.binary()), SCHEMA)
    rows = [{k: v for k, v in row.items() if v is not None} for row in columns.to_pylist()]
    return rows, {one.row: one.reason for one in bad}


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (b'{"n": 1, "x": 1.5, "t": "a", "b": true}', {"n": 1, "x": 1.5, "t": "a", "b": True}),
        (b' \n{"n":\n1}\r\n', {"n": 1}),
        (b"{}", {}),
        (b'{"other": {"deep": [1, {"x": null}]}}', {}),
        (b'{"s": {"y": 2}, "l": [1, 2]}', {"s": {"y": 2.0, "name": None}, "l": [1, 2]}),
        (b'{"t": 5}', {"t": "5"}),
        (b'{"t": {"a": [1]}}', {"t": '{"a": [1]}'}),
        (b'{"n": 2.0}', {"n": 2}),
        (b'{"n": 1, "n": 2}', {"n": 2}),
        (b'{"at": "2026-01-02T03:04:05Z"}', {"at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)}),
        (b'{"at": "2026-01-02T03:04:05+01:00"}', {"at": datetime.datetime(2026, 1, 2, 2, 4, 5, tzinfo=datetime.UTC)}),
        (b'{"day": "2026-01-02"}', {"day": datetime.date(2026, 1, 2)}),
        (b'{"m": {"k": 1}}', {"m": [("k", 1)]}),
        ('{"t": "zoë"}'.encode(), {"t": "zoë"}),
        (b'{"t": "\\u0000"}', {"t": "\0"}),
        (None, {}),
    ],
)  # fmt: skip
def test_an_object_becomes_a_row(value: bytes | None, row: dict[str, Any]) -> None:
    assert decoded(value) == ([row], {})


@pytest.mark.parametrize(
    ("value", "row", "reason"),
    [
        (b"", {}, "it is no JSON: Expecting value at character 0"),
        (b"text", {}, "it is no JSON: Expecting value at character 0"),
        (b'{"n": 1', {}, "it is no JSON: Expecting ',' delimiter at character 7"),
        (b'{"n": 1} {"n": 2}', {}, "it is no JSON: Extra data at character 9"),
        (b'{"n": 1}\0', {}, "it is no JSON: Extra data at character 8"),
        (b'{"n": NaN}', {}, "it is no JSON: NaN is no number"),
        (b"[1]", {}, "it is a JSON array, not an object"),
        (b"null", {}, "it is a JSON null, not an object"),
        (b'\xff{"n": 1}', {}, "it is not UTF-8 at byte 0"),
        (b'{"t": "\\ud800"}', {}, "field t has half of a surrogate pair, which is no character"),
        (b'{"n": "1", "t": "kept"}', {"t": "kept"}, "field n is the JSON string '1', not int64"),
        (b'{"n": 1.5}', {}, "field n is a JSON number, not int64"),
        (b'{"n": true}', {}, "field n is a JSON boolean, not int64"),
        (b'{"n": 9223372036854775808}', {}, "field n is 9223372036854775808, which is outside of int64"),
        (b'{"s": {"y": "z"}}', {}, "field s.y is the JSON string 'z', not double"),
        (b'{"l": [1, null, {}]}', {}, "field l[2] is a JSON object, not int64"),
        (b'{"at": "yesterday"}', {}, "field at is the JSON string 'yesterday', not timestamp[us, tz=UTC]"),
        (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, {}, "it is nested too deeply"),
    ],
    ids=range(18),
)  # fmt: skip
def test_a_value_that_does_not_fit_is_null_and_named(
    value: bytes, row: dict[str, Any], reason: str
) -> None:
    good = b'{"n": 7}'
    assert decoded(good, value, good) == ([{"n": 7}, row, {"n": 7}], {1: reason})


@pytest.mark.parametrize(
    "values",
    [
        [b'{"n": 1}{"n": 2}', b'{"n": 3}\0', b'{"n": 4}'],
        [b'{"t": "}', b'{"t": "}', b'{"n": 1}{"n": 2}'],
        [b'{"n": 1}{"n": 2}', b"", b'{"n": 3}'],
        [b'{"s": {}', b', "n": 1}', b'{"n": 1}{"n": 2}'],
    ],
)
def test_values_that_are_several_objects_together_shift_no_row(values: list[bytes]) -> None:
    rows, bad = decoded(b'{"n": 100}', *values, b'{"n": 200}')
    assert rows[0] == {"n": 100}
    assert rows[-1] == {"n": 200}
    assert set(bad) >= {1}
    assert len(rows) == len(values) + 2


def test_a_bad_value_makes_only_its_block_slow_and_rows_stay_in_place() -> None:
    values = [b'{"n": %d}' % n for n in range(10_000)]
    values[5000] = b"x"
    columns, bad = decode_json(pa.array(values, pa.binary()), pa.schema([("n", pa.int64())]))
    assert columns.column("n").to_pylist() == [None if n == 5000 else n for n in range(10_000)]
    assert [one.row for one in bad] == [5000]


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["y", "name", "z"]), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip
_objects = st.dictionaries(
    st.sampled_from(["n", "x", "t", "b", "s", "l", "other"]), _values, max_size=4
)


@settings(max_examples=examples(100))
@given(st.lists(_objects, min_size=1, max_size=4))
def test_what_arrows_parser_takes_is_what_python_makes_of_it(objects: list[dict[str, Any]]) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in ("n", "x", "t", "b", "s", "l")])
    values = pa.array([json.dumps(one).encode() for one in objects], pa.binary())
    fast = _decode_block(values, schema)
    slow, bad = _decode_rows(values, schema)
    if fast is not None:
        assert bad == []
        assert fast.to_pylist() == slow.to_pylist()


@settings(max_examples=examples(100))
@given(st.lists(_objects, min_size=1, max_size=5))
def test_a_sample_fits_the_schema_that_is_inferred_from_it(objects: list[dict[str, Any]]) -> None:
    schema = infer_schema(objects)
    assert schema is not None
    values = pa.array([json.dumps(one).encode() for one in objects], pa.binary())
    assert decode_json(values, schema).bad == []


def test_types_of_a_sample() -> None:
    objects = [
        {"i": 1, "f": 1, "mixed": 1, "deep": {"a": 1}, "list": [], "null": None, "big": 2**64},
        {"f": 1.5, "mixed": "x", "deep": {"b": [True]}, "list": [1, None], "empty": {}},
    ]
    schema = infer_schema(objects)
    assert schema is not None
    assert {field.name: str(field.type) for field in schema} == {
        "i": "int64", "f": "double", "mixed": "string", "deep": "struct<a: int64, b: list<item: bool>>",
        "list": "list<item: int64>", "null": "string", "big": "string", "empty": "string",
    }  # fmt: skip
    assert infer_schema([]) is None
    assert infer_schema([{str(n): 1} for n in range(500)]) is None, "keys that are data"


def test_types_of_a_json_schema() -> None:
    text = json.dumps({
        "type": "object",
        "definitions": {"place": {"type": "object", "properties": {"lat": {"type": "number"}}}},
        "properties": {
            "i": {"type": "integer"}, "n": {"type": ["null", "number"]}, "b": {"type": "boolean"},
            "t": {"type": "string"}, "at": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"}, "place": {"$ref": "#/definitions/place"},
            "tags": {"type": "array", "items": {"type": "string"}}, "any": {},
            "one": {"oneOf": [{"type": "null"}, {"type": "integer"}]}, "two": {"type": ["string", "integer"]},
        },
    })  # fmt: skip
    assert {field.name: str(field.type) for field in schema_of_json_schema(text)} == {
        "i": "int64", "n": "double", "b": "bool", "t": "string", "at": "timestamp[us, tz=UTC]",
        "day": "date32[day]", "place": "struct<lat: double>", "tags": "list<item: string>", "any": "string",
        "one": "int64", "two": "string",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "x.json is no JSON"),
        ("[]", "x.json has no properties"),
        ('{"type": "string"}', "x.json has no properties"),
        ('{"properties": {"a": {"$ref": "#/nowhere"}}}', "has nothing at #/nowhere"),
    ],
)
def test_a_json_schema_that_is_none_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SchemaParseError, match=reason):
        schema_of_json_schema(text, "x.json")


def test_a_json_schema_that_refers_to_itself_ends_as_text() -> None:
    text = '{"properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}}'
    assert schema_of_json_schema(text).names == ["next", "n"]
