"""Columns of keys and values with declared schemas: JSON, Avro and Protobuf, with a schema registry or with files.

    click = registry_schema("http://localhost:8081", "clicks-value")
    rows = topic.select("*", decode("value", click).alias("click"))
    rows.where("click.error IS NULL").select("click.value.*")
    rows.select(encode(F.struct("user", "ms"), click).alias("value"))

They are Arrow UDFs over `kavka.client.schemas`; the type of the result comes from the schema, on the driver, without a
request to Spark. A Python worker makes its client of the registry once, and asks for each id of a schema once.

`PERMISSIVE` gives `struct<value, error>`, with `error` null or `struct<message, class, stacktrace>`; of JSON, a field
that is not of its type is null, and the error names it. `FAILFAST` gives the value alone, and a bad one fails the task.
A registry that does not answer fails the task in both modes: its values are not bad.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kavka.client.schemas.errors import PayloadError, SchemaError
from kavka.client.schemas.pinned import (
    PinnedColumns,
    PinnedSchema,
    ValueFailure,
    failure_of,
    pin_file,
    pin_registered,
    pin_subject,
)
from kavka.spark.errors import ConnectorError, one_sentence

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

PERMISSIVE: Final = "PERMISSIVE"
FAILFAST: Final = "FAILFAST"
_ERROR_FIELDS: Final = ("message", "class", "stacktrace")
_UINT64_DIGITS: Final = 20
_DECIMAL_DIGITS: Final = 38


def registry_schema(
    registry: str | Mapping[str, Any],
    subject: str,
    version: int | str = "latest",
    *,
    message: str | None = None,
    validate_json: bool = True,
) -> PinnedSchema:
    """Return a version of a subject, as columns have it and as new values are written with it.

    `registry` is a URL, or settings as those of Confluent's client: they travel to the workers in the query's plan.
    Values of other versions are read too. Of Protobuf, `message` names another message than the first. Raise
    ConnectorError.
    """
    with schema_sentences():
        return pin_subject(registry, subject, version, message=message, validate_json=validate_json)


def register_schema(
    registry: str | Mapping[str, Any],
    subject: str,
    path: str | Path,
    *,
    validate_json: bool = True,
) -> PinnedSchema:
    """Register the schema in a file (`.avsc`, `.proto`, `.json`) unless its subject has it, and return it.

    Raise ConnectorError, also when it is not compatible with the subject's earlier ones.
    """
    with schema_sentences():
        return pin_registered(registry, subject, path, validate_json=validate_json)


def file_schema(
    path: str | Path,
    *,
    framed: bool = False,
    schema_id: int | None = None,
    validate_json: bool = True,
) -> PinnedSchema:
    """Return the schema in a file (`.avsc`, `.proto`, `.json`; `FILE.proto#Message`).

    Values have no frames unless they are `framed`: then it is the schema of every id, and new values have
    `schema_id`. Raise ConnectorError.
    """
    with schema_sentences():
        return pin_file(path, framed=framed, schema_id=schema_id, validate_json=validate_json)


def decode(column: Column | str, schema: PinnedSchema, mode: str = PERMISSIVE) -> Column:
    """Return a column of binary (or string) values as structs; null stays null. See the module for modes."""
    decoded: Column = decoder(schema, mode)(column)
    return decoded


def encode(column: Column | str, schema: PinnedSchema, mode: str = FAILFAST) -> Column:
    """Return a column of structs as binary values, with frames if the schema's values have them; null stays null.

    Fields are found by their names; one that the schema does not have is refused, of Avro passed over.
    """
    encoded: Column = encoder(schema, mode)(column)
    return encoded


def decoder(schema: PinnedSchema, mode: str = PERMISSIVE) -> Any:
    """Return `decode` as a function of Spark, for `spark.udf.register` and SQL."""
    from pyspark.sql.functions import arrow_udf

    _check(schema, mode)
    with schema_sentences():
        value = value_type(schema)
    if mode == FAILFAST:
        return arrow_udf(_function(decoded_failfast, schema), value)
    return arrow_udf(_function(decoded, schema), _with_error(value))


def encoder(schema: PinnedSchema, mode: str = FAILFAST) -> Any:
    """Return `encode` as a function of Spark, for `spark.udf.register` and SQL."""
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.types import BinaryType

    _check(schema, mode)
    if schema.is_framed and schema.schema_id is None:
        raise ConnectorError(
            "Values with frames need the id of their schema: give schema_id to file_schema."
        )
    if mode == FAILFAST:
        return arrow_udf(_function(encoded_failfast, schema), BinaryType())
    return arrow_udf(_function(encoded, schema), _with_error(BinaryType()))


def value_type(schema: PinnedSchema) -> StructType:
    """Return Spark's type of a schema's values, a struct. Raise SchemaError."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_type

    spark_type: StructType = from_arrow_type(pa.struct(list(_target(schema))))
    return spark_type


@contextmanager
def schema_sentences() -> Iterator[None]:
    """Turn errors of schemas, of their files and of the registry into a ConnectorError of one sentence."""
    try:
        yield
    except (SchemaError, OSError, ValueError) as error:
        raise ConnectorError(" ".join(str(error).split())) from error


def _check(schema: PinnedSchema, mode: str) -> None:
    if not isinstance(schema, PinnedSchema):
        raise ConnectorError(
            f"A schema is wanted, of registry_schema, register_schema or file_schema, not {schema!r:.60}."
        )
    if mode not in (PERMISSIVE, FAILFAST):
        raise ConnectorError(f"The mode is {PERMISSIVE} or {FAILFAST}, not {mode!r}.")


def _with_error(value: DataType) -> DataType:
    from pyspark.sql.types import StringType, StructField, StructType

    error = StructType([StructField(name, StringType()) for name in _ERROR_FIELDS])
    return StructType([StructField("value", value), StructField("error", error)])


# In the workers


def _function(
    work: Callable[[PinnedSchema, pa.Array], pa.Array], schema: PinnedSchema
) -> Callable[[pa.Array], pa.Array]:
    """Return what Spark calls with each batch of a column; it tells by the annotations that columns are Arrow's."""
    import pyarrow as pa

    def of_column(column: pa.Array) -> pa.Array:
        with one_sentence(), schema_sentences():
            return work(schema, column)

    of_column.__name__ = "decode" if work in (decoded, decoded_failfast) else "encode"
    of_column.__annotations__ = {"column": pa.Array, "return": pa.Array}
    return of_column


def decoded(schema: PinnedSchema, values: pa.Array) -> pa.Array:
    """Return a column of values as `struct<value, error>`. Raise SchemaError when the registry does not answer."""
    columns = _columns(schema)
    values = _binary(values)
    batch, bad = columns.decode(values)
    lost = {one.row for one in bad if all(column[one.row].as_py() is None for column in batch)}
    rows = _structs(batch, values, lost)
    return _value_and_error(rows, values, columns.failures(values, bad))


def decoded_failfast(schema: PinnedSchema, values: pa.Array) -> pa.Array:
    """Return a column of values as structs. Raise ConnectorError for the first bad one, SchemaError."""
    values = _binary(values)
    batch, bad = _columns(schema).decode(values)
    if bad:
        raise ConnectorError(f"A value cannot be decoded: {bad[0].reason}.")
    return _structs(batch, values, set())


def encoded(schema: PinnedSchema, rows: pa.Array) -> pa.Array:
    """Return a column of structs as `struct<value, error>`."""
    payloads, bad = _columns(schema).encode(rows)
    failures = [failure_of(one, PayloadError(one.reason)) for one in bad]
    return _value_and_error(payloads, rows, failures)


def encoded_failfast(schema: PinnedSchema, rows: pa.Array) -> pa.Array:
    """Return a column of structs as payloads. Raise ConnectorError for the first that does not fit."""
    payloads, bad = _columns(schema).encode(rows)
    if bad:
        raise ConnectorError(f"A row cannot be encoded: {bad[0].reason}.")
    return payloads


@lru_cache(maxsize=64)
def _columns(schema: PinnedSchema) -> PinnedColumns:
    """Return this process's codec of a schema, which keeps what it has asked the registry for."""
    return PinnedColumns(schema, _target(schema))


def _target(schema: PinnedSchema) -> pa.Schema:
    """Return the columns of a schema in types that Spark has."""
    import pyarrow as pa

    own = PinnedColumns(schema).schema
    return pa.schema([pa.field(field.name, _spark_arrow(field.type)) for field in own])


def _spark_arrow(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark has for a type; unsigned numbers take the next larger one."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([(field.name, _spark_arrow(field.type)) for field in fields])
    if kinds.is_list(kind):
        return pa.list_(pa.field("element", _spark_arrow(kind.value_type)))
    if kinds.is_map(kind):
        key = pa.field("key", _spark_arrow(kind.key_type), nullable=False)
        return pa.map_(key, pa.field("value", _spark_arrow(kind.item_type)))
    if kinds.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if kinds.is_time(kind):
        return pa.time64("ns")
    if kinds.is_decimal(kind):
        return pa.decimal128(min(kind.precision, _DECIMAL_DIGITS), kind.scale)
    larger = {
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(_UINT64_DIGITS, 0),
        pa.null(): pa.string(),
    }
    return larger.get(kind, kind)


def _binary(values: pa.Array) -> pa.Array:
    import pyarrow as pa

    return values if values.type == pa.binary() else values.cast(pa.binary())


def _structs(batch: pa.RecordBatch, values: pa.Array, lost: set[int]) -> pa.Array:
    """Return columns as structs; null where the value is null, or lost."""
    import pyarrow as pa
    import pyarrow.compute as pc

    empty = values.is_null()
    if lost:
        empty = pc.or_(empty, pa.array([row in lost for row in range(len(values))], pa.bool_()))
    fields = [pa.field(field.name, field.type) for field in batch.schema]
    return pa.StructArray.from_arrays(batch.columns, fields=fields, mask=empty)


def _value_and_error(value: pa.Array, given: pa.Array, failures: list[ValueFailure]) -> pa.Array:
    import pyarrow as pa

    by_row = {row_failure.row: row_failure for row_failure in failures}
    error = pa.struct([(name, pa.string()) for name in _ERROR_FIELDS])
    if by_row:
        rows = [by_row.get(row) for row in range(len(given))]
        errors = pa.array(
            [
                None
                if row_failure is None
                else dict(zip(_ERROR_FIELDS, row_failure[1:], strict=True))
                for row_failure in rows
            ],
            error,
        )
    else:
        errors = pa.nulls(len(given), error)
    fields = [pa.field("value", value.type), pa.field("error", error)]
    return pa.StructArray.from_arrays([value, errors], fields=fields, mask=given.is_null())
