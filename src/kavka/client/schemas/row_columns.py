"""Rows of Python values, as decoders of Avro and Protobuf make and take them, from and to Arrow columns. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kavka.client.schemas.errors import PayloadError
from kavka.client.schemas.json_columns import BadValue, DecodedColumns

if TYPE_CHECKING:
    import pyarrow as pa

Convert = Callable[[Any], Any]


class EncodedColumn(NamedTuple):
    """A column of payloads, null for null rows and for those that could not be encoded, which `bad` lists."""

    payloads: pa.Array
    bad: list[BadValue]


def encode_rows(rows: pa.Array, encode: Callable[[Any], bytes]) -> EncodedColumn:
    """Encode a column of structs one by one; a map is given as a dictionary."""
    import pyarrow as pa

    payloads: list[bytes | None] = []
    bad: list[BadValue] = []
    for number, row in enumerate(rows.to_pylist(maps_as_pydicts="strict")):
        payload = None
        if row is not None:
            try:
                payload = encode(row)
            except PayloadError as error:
                bad.append(BadValue(number, str(error)))
        payloads.append(payload)
    return EncodedColumn(pa.array(payloads, pa.binary()), bad)


def decode_rows(
    payloads: pa.Array, schema: pa.Schema, decode: Callable[[bytes], Any]
) -> DecodedColumns:
    """Decode payloads one by one into columns; null payloads, and those that cannot be decoded, give nulls."""
    rows: list[dict[str, Any] | None] = []
    bad: list[BadValue] = []
    for number, payload in enumerate(payloads.to_pylist()):
        row = None
        if payload is not None:
            try:
                row = decode(payload)
            except PayloadError as error:
                bad.append(BadValue(number, str(error)))
        rows.append(row)
    return _columns(rows, schema, bad)


def _columns(
    rows: Sequence[dict[str, Any] | None], schema: pa.Schema, bad: list[BadValue]
) -> DecodedColumns:
    import pyarrow as pa

    arrays = []
    for field in schema:
        name, convert = field.name, converter(field.type)
        values = [None if row is None else row.get(name) for row in rows]
        try:
            if convert is not None:
                values = [None if value is None else convert(value) for value in values]
            arrays.append(pa.array(values, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
            arrays.append(_one_by_one(rows, field, convert, bad))
    return DecodedColumns(pa.RecordBatch.from_arrays(arrays, schema=schema), bad)


def _one_by_one(
    rows: Sequence[dict[str, Any] | None],
    field: pa.Field,
    convert: Convert | None,
    bad: list[BadValue],
) -> pa.Array:
    """Convert the values of a field of which some do not fit."""
    import pyarrow as pa

    found: list[Any] = []
    for number, row in enumerate(rows):
        value = None if row is None else row.get(field.name)
        try:
            if value is not None and convert is not None:
                value = convert(value)
            pa.scalar(value, field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
            bad.append(BadValue(number, f"field {field.name} is {value!r:.60}, not {field.type}"))
            value = None
        found.append(value)
    return pa.array(found, field.type)


def converter(kind: pa.DataType) -> Convert | None:
    """Return what makes a value of a type as Arrow takes it, None where it is as it should be already."""
    import pyarrow.types as kinds

    if kinds.is_string(kind):
        return _text
    if kinds.is_map(kind):
        item = converter(kind.item_type) or _same
        return lambda value: [
            (key, None if one is None else item(one)) for key, one in value.items()
        ]
    if kinds.is_list(kind):
        entry = converter(kind.value_type)
        return None if entry is None else (
            lambda value: [None if one is None else entry(one) for one in value]
        )  # fmt: skip
    if kinds.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        parts = [(field.name, converter(field.type) or _same) for field in fields]
        return lambda value: {
            name: None if value.get(name) is None else part(value[name]) for name, part in parts
        }
    return None


def _same(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    """Return a text: of a value that is none, such as of a union, the JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, uuid.UUID):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=str)
