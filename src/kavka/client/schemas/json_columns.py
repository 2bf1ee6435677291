"""A column of JSON objects as Arrow columns of a declared schema; needs the extra `arrow`. Pure.

Blocks of records go through Arrow's parser as a whole. A block that it refuses, and one in which it may have counted
records otherwise than they came, is decoded record by record in Python, which finds the values that do not fit.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from kavka.wire.records.arrow import constant

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK_ROWS = 4096
"""Records that one bad value makes slow."""


class BadValue(NamedTuple):
    """A value that its schema does not fit: its row in the column, and what is wrong with it."""

    row: int
    reason: str


class DecodedColumns(NamedTuple):
    """Columns with a row for each value, and the values that could not be decoded, wholly or in a field."""

    columns: pa.RecordBatch
    bad: list[BadValue]


class _Unfit(ValueError):
    """A JSON value that is not of its field's type."""


def decode_json(values: pa.Array, schema: pa.Schema) -> DecodedColumns:
    """Decode a column of binary or string values; fields that `schema` does not name are passed over.

    A null value gives nulls, and so does a value that is no JSON object, which is reported. Of an object with a field
    that is not of its type only that field is null. A field of type string takes every JSON value: what is no string
    stays JSON text.
    """
    import pyarrow as pa

    pieces: list[pa.RecordBatch] = []
    bad: list[BadValue] = []
    for start in range(0, len(values), _BLOCK_ROWS):
        block = values.slice(start, _BLOCK_ROWS)
        piece = _decode_block(block, schema)
        if piece is None:
            piece, found = _decode_rows(block, schema)
            bad += [BadValue(start + row, reason) for row, reason in found]
        pieces.append(piece)
    if len(pieces) == 1:
        return DecodedColumns(pieces[0], bad)
    batches = pa.Table.from_batches(pieces, schema).combine_chunks().to_batches()
    return DecodedColumns(batches[0] if batches else _no_rows(schema), bad)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _decode_block(values: pa.Array, schema: pa.Schema) -> pa.RecordBatch | None:
    """Decode a block with Arrow's parser; None when a value does not fit, or may not be exactly one object.

    Every value begins with a brace, and a line break ends it, which no string can contain unescaped: so a value holds
    one object or more, or is an error, and as many objects as values means one each. A zero byte would end the
    parser's input early.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json as pj

    try:
        text = values.cast(pa.string())  # checks UTF-8
        if text.null_count:
            text = text.fill_null(constant("{}", pa.string()))
        if not pc.all(pc.starts_with(text, "{")).as_py():
            text = pc.utf8_ltrim(text, " \t\r\n")
            if not pc.all(pc.starts_with(text, "{")).as_py():
                return None
        whole = pa.ListArray.from_arrays(_one_list(len(text)), text)
        joined = pc.binary_join(whole, constant("\n", pa.string()))[0].as_buffer()
        if _has_zero_byte(joined):
            return None
        table = pj.read_json(
            pa.BufferReader(joined),
            read_options=pj.ReadOptions(use_threads=False, block_size=joined.size + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != len(values):
        return None
    batches = table.select(schema.names).combine_chunks().to_batches()
    return batches[0] if batches and batches[0].schema.equals(schema) else None


def _one_list(length: int) -> pa.Array:
    import pyarrow as pa

    ends = length.to_bytes(4, "little")
    return pa.Array.from_buffers(pa.int32(), 2, [None, pa.py_buffer(bytes(4) + ends)])


def _has_zero_byte(buffer: pa.Buffer) -> bool:
    return b"\0" in bytes(memoryview(buffer))


def _decode_rows(
    values: pa.Array, schema: pa.Schema
) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    bad: list[tuple[int, str]] = []
    for number, value in enumerate(values.to_pylist()):
        row: dict[str, Any] = {}
        rows.append(row)
        if value is None:
            continue
        try:
            parsed = parse_object(value)
        except ValueError as error:
            bad.append((number, str(error)))
            continue
        reason = _fill(row, parsed, schema)
        if reason is not None:
            bad.append((number, reason))
    arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema), bad


def parse_object(value: bytes | str) -> dict[str, Any]:
    """Return a JSON object. Raise ValueError that says what it is instead."""
    try:
        text = value if isinstance(value, str) else value.decode("utf-8")
        parsed = json.loads(text, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error.msg} at character {error.pos}") from error
    if not isinstance(parsed, dict):
        raise ValueError(f"it is a JSON {_json_type(parsed)}, not an object")
    return parsed


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"it is no JSON: {name} is no number")


def _fill(row: dict[str, Any], parsed: dict[str, Any], schema: Iterable[pa.Field]) -> str | None:
    """Append the fields to a row, and return what is wrong with the first that does not fit."""
    wrong = None
    for field in schema:
        try:
            row[field.name] = _converted(parsed.get(field.name), field.type, field.name)
        except _Unfit as error:
            wrong = wrong or str(error)
    return wrong


def _converted(value: Any, kind: pa.DataType, path: str) -> Any:
    """Return a parsed JSON value as Arrow takes it. Raise _Unfit when it is not of the type."""
    import pyarrow.types as kinds

    if value is None:
        return None
    if kinds.is_string(kind):
        return _text_of(value, path)
    if kinds.is_boolean(kind) and isinstance(value, bool):
        return value
    if kinds.is_integer(kind) and _is_number(value) and value == int(value):
        return _in_range(int(value), kind, path)
    if kinds.is_floating(kind) and _is_number(value):
        return float(value)
    if kinds.is_struct(kind) and isinstance(value, dict):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return {
            field.name: _converted(value.get(field.name), field.type, f"{path}.{field.name}")
            for field in fields
        }
    if kinds.is_list(kind) and isinstance(value, list):
        return [_converted(item, kind.value_type, f"{path}[{n}]") for n, item in enumerate(value)]
    if kinds.is_map(kind) and isinstance(value, dict):
        return [
            (key, _converted(item, kind.item_type, f"{path}.{key}")) for key, item in value.items()
        ]
    if kinds.is_decimal(kind) and _is_number(value):
        return _from_text(str(value), kind, path)
    if isinstance(value, str):
        return _from_text(value, kind, path)
    raise _Unfit(f"field {path} is a JSON {_json_type(value)}, not {kind}")


def _text_of(value: Any, path: str) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Unfit(f"field {path} has half of a surrogate pair, which is no character") from None
    return text


def _from_text(value: str, kind: pa.DataType, path: str) -> Any:
    """Return a date, a time or a decimal number, which JSON has as text."""
    import pyarrow.types as kinds

    try:
        if kinds.is_timestamp(kind):
            moment = datetime.datetime.fromisoformat(value)
            if kind.tz is not None and moment.tzinfo is None:
                return moment.replace(tzinfo=datetime.timezone.utc)  # noqa: UP017
            return moment
        if kinds.is_date(kind):
            return datetime.date.fromisoformat(value)
        if kinds.is_time(kind):
            return datetime.time.fromisoformat(value)
        if kinds.is_decimal(kind):
            return decimal.Decimal(value)
        if kinds.is_binary(kind):
            return value.encode()
    except (ValueError, decimal.InvalidOperation):
        pass
    raise _Unfit(f"field {path} is the JSON string {value[:40]!r}, not {kind}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_range(number: int, kind: pa.DataType, path: str) -> int:
    import pyarrow.types as kinds

    bits = kind.bit_width
    low, high = (
        (-(1 << bits - 1), 1 << bits - 1) if kinds.is_signed_integer(kind) else (0, 1 << bits)
    )
    if low <= number < high:
        return number
    raise _Unfit(f"field {path} is {number}, which is outside of {kind}")


def _json_type(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
