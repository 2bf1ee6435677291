"""Columns of rows and of tables: Arrow's types as Iceberg's, and which difference is an evolution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from kavka.lake.errors import LakeError

_KINDS = pa.types
_PLAIN: list[tuple[object, type[IcebergType]]] = [
    (_KINDS.is_boolean, BooleanType),
    (_KINDS.is_int64, LongType),
    (_KINDS.is_integer, IntegerType),  # Spark has none without sign
    (_KINDS.is_float64, DoubleType),
    (_KINDS.is_float32, FloatType),
    (_KINDS.is_date32, DateType),
    (_KINDS.is_time64, TimeType),
    (_KINDS.is_string, StringType),
    (_KINDS.is_large_string, StringType),
    (_KINDS.is_binary, BinaryType),
    (_KINDS.is_large_binary, BinaryType),
]


def iceberg_schema(columns: pa.Schema) -> Schema:
    """Return the schema of a table for rows; all columns are optional. Raise LakeError for a type that has no place."""
    ids = count(1)
    return Schema(*(_field(one, ids, one.name) for one in columns))


def _field(field: pa.Field, ids: Iterator[int], path: str) -> NestedField:
    number = next(ids)
    return NestedField(number, field.name, _type(field.type, ids, path), required=False)


def _type(kind: pa.DataType, ids: Iterator[int], path: str) -> IcebergType:
    for is_kind, iceberg_type in _PLAIN:
        if is_kind(kind):  # type: ignore[operator]
            return iceberg_type()
    if _KINDS.is_timestamp(kind):
        return TimestampType() if kind.tz is None else TimestamptzType()
    if _KINDS.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if _KINDS.is_fixed_size_binary(kind):
        return FixedType(kind.byte_width)
    if _KINDS.is_struct(kind):
        return StructType(*(_field(one, ids, f"{path}.{one.name}") for one in kind))
    if _KINDS.is_list(kind) or _KINDS.is_large_list(kind):
        number = next(ids)
        return ListType(number, _type(kind.value_type, ids, f"{path}.element"), False)
    if _KINDS.is_map(kind):
        key = next(ids)
        key_type = _type(kind.key_type, ids, f"{path}.key")
        return MapType(key, key_type, next(ids), _type(kind.item_type, ids, f"{path}.value"), False)
    raise LakeError(f"The column {path} is {kind}, which Iceberg has no type for: cast it.")


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the columns of rows and those of a table."""

    new: tuple[str, ...]
    """Columns that the table does not have."""
    widened: tuple[str, ...]
    """Columns whose values the table's type is too narrow for, and a wider one is not."""
    problems: tuple[str, ...]
    """Sentences: what no evolution mends."""

    @property
    def needs_evolution(self) -> bool:
        """Return whether the table must change."""
        return bool(self.new or self.widened)


def difference(table: Schema, rows: Schema) -> Difference:
    """Compare a table with rows."""
    new: list[str] = []
    widened: list[str] = []
    problems: list[str] = []
    _compare(table.as_struct(), rows.as_struct(), "", (new, widened, problems))
    return Difference(tuple(new), tuple(widened), tuple(problems))


_Found = tuple[list[str], list[str], list[str]]


def _compare(table: IcebergType, rows: IcebergType, path: str, differences: _Found) -> None:
    _, widened, problems = differences
    match table, rows:
        case StructType(), StructType():
            _compare_structs(table, rows, path, differences)
        case ListType(), ListType():
            _compare(table.element_type, rows.element_type, f"{path}.element", differences)
        case MapType(), MapType():
            _compare(table.key_type, rows.key_type, f"{path}.key", differences)
            _compare(table.value_type, rows.value_type, f"{path}.value", differences)
        case _ if table == rows or _is_wider(table, rows):
            return
        case _ if _is_wider(rows, table):
            widened.append(path)
        case _:
            problems.append(f"the column {path} is {table} in the table and {rows} in the rows")


def _compare_structs(table: StructType, rows: StructType, path: str, differences: _Found) -> None:
    new, _, problems = differences
    own = {one.name: one for one in table.fields}
    given = {one.name: one for one in rows.fields}
    for name, field in given.items():
        inner = f"{path}.{name}" if path else name
        if name not in own:
            new.append(inner)
        else:
            _compare(own[name].field_type, field.field_type, inner, differences)
    for name, field in own.items():
        if field.required and name not in given:
            problems.append(f"the table requires the column {path + '.' if path else ''}{name}")


def _is_wider(wide: IcebergType, narrow: IcebergType) -> bool:
    """Return whether every value of one type fits the other, by Iceberg's rules of promotion."""
    match wide, narrow:
        case (LongType(), IntegerType()) | (DoubleType(), FloatType()):
            return True
        case DecimalType(), DecimalType():
            return bool(wide.scale == narrow.scale and wide.precision >= narrow.precision)
        case _:
            return False
