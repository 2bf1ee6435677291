"""Avro values, with fastavro."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kavka.client.schemas.errors import MissingExtra, PayloadError, SchemaParseError
from kavka.client.schemas.json_columns import DecodedColumns
from kavka.client.schemas.row_columns import EncodedColumn, decode_rows, encode_rows

if TYPE_CHECKING:
    import pyarrow as pa

_DECIMAL_128: Final = 38
_ERRORS: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, OverflowError,
                  StopIteration, RecursionError, MemoryError)  # fmt: skip
"""Exceptions of fastavro for bytes that are none of its schema, and for values that do not fit."""


class AvroCodec:
    """One Avro schema."""

    def __init__(self, text: str, references: Mapping[str, str] | None = None) -> None:
        """Parse a schema and the named schemas that it refers to. Raise SchemaParseError, MissingExtra."""
        try:
            import fastavro
            from fastavro.schema import SchemaParseException, UnknownType
        except ImportError:
            raise MissingExtra("fastavro") from None
        self._fastavro = fastavro
        named: dict[str, Any] = {}
        try:
            for one in (references or {}).values():
                fastavro.parse_schema(json.loads(one), named_schemas=named)
            self.parsed: Any = fastavro.parse_schema(json.loads(text), named_schemas=named)
        except (ValueError, TypeError, KeyError, SchemaParseException, UnknownType) as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise SchemaParseError(f"the Avro schema cannot be parsed: {reason}") from error
        self._named = named

    def encode(self, value: Any) -> bytes:
        """Return the payload of a value. Raise PayloadError when it does not fit the schema."""
        made = io.BytesIO()
        try:
            self._fastavro.schemaless_writer(made, self.parsed, value)
        except _ERRORS as error:
            raise PayloadError(
                f"the value does not fit the Avro schema: {_reason(error)}"
            ) from error
        return made.getvalue()

    def decode(self, payload: bytes, reader: AvroCodec | None = None) -> Any:
        """Return the value of a payload, by the rules of Avro as one of the `reader`'s schema. Raise PayloadError."""
        source = io.BytesIO(payload)
        try:
            value = self._fastavro.schemaless_reader(
                source, self.parsed, None if reader is None else reader.parsed
            )
        except (*_ERRORS, self._fastavro.read.SchemaResolutionError) as error:
            raise PayloadError(f"it is no value of the Avro schema: {_reason(error)}") from error
        left = len(payload) - source.tell()
        if left:
            raise PayloadError(f"{left} bytes are behind the value of the Avro schema")
        return value

    def arrow_schema(self) -> pa.Schema:
        """Return the fields of a record. Raise SchemaParseError for a schema of another type."""
        import pyarrow as pa

        kind = _ArrowTypes(self._named).of(self.parsed, ())
        if not pa.types.is_struct(kind):
            raise SchemaParseError("the Avro schema is not of a record, and has no fields")
        return pa.schema([kind.field(index) for index in range(kind.num_fields)])

    def decode_columns(
        self, payloads: pa.Array, schema: pa.Schema, reader: AvroCodec | None = None
    ) -> DecodedColumns:
        """Decode a column of payloads."""
        return decode_rows(payloads, schema, lambda payload: self.decode(payload, reader))

    def encode_column(self, rows: pa.StructArray) -> EncodedColumn:
        """Encode a column of rows."""
        return encode_rows(rows, self.encode)


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class _ArrowTypes:
    """Arrow types of the types of a schema."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def of(self, avro: Any, outer: tuple[str, ...]) -> pa.DataType:
        """Return the type of a part; a record within itself, and a union of several types, are text."""
        import pyarrow as pa

        if isinstance(avro, list):
            kinds = [one for one in avro if one != "null"]
            return self.of(kinds[0], outer) if len(kinds) == 1 else pa.string()
        if isinstance(avro, str):
            plain = _plain(avro)
            if plain is not None:
                return plain
            avro = self._named.get(avro)
            if avro is None:
                return pa.string()
        logical = _logical(avro)
        if logical is not None:
            return logical
        return self._complex(avro, outer)

    def _complex(self, avro: Mapping[str, Any], outer: tuple[str, ...]) -> pa.DataType:
        import pyarrow as pa

        match avro["type"]:
            case "record" | "error" if avro["name"] in outer or not avro["fields"]:
                return pa.string()
            case "record" | "error":
                inner = (*outer, avro["name"])
                return pa.struct(
                    [(one["name"], self.of(one["type"], inner)) for one in avro["fields"]]
                )
            case "array":
                return pa.list_(self.of(avro["items"], outer))
            case "map":
                return pa.map_(pa.string(), self.of(avro["values"], outer))
            case "fixed":
                return pa.binary()
            case "enum":
                return pa.string()
            case other:
                return self.of(other, outer)


def _plain(name: str) -> pa.DataType | None:
    import pyarrow as pa

    return {
        "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(),
        "float": pa.float32(), "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
    }.get(name)  # fmt: skip


def _logical(avro: Mapping[str, Any]) -> pa.DataType | None:
    """Return the type of a logical type that fastavro gives as such."""
    import pyarrow as pa

    if avro.get("logicalType") == "decimal":
        precision = avro.get("precision", 0)
        kind = pa.decimal128 if precision <= _DECIMAL_128 else pa.decimal256
        return kind(precision, avro.get("scale", 0))
    return {
        ("int", "date"): pa.date32(),
        ("int", "time-millis"): pa.time32("ms"),
        ("long", "time-micros"): pa.time64("us"),
        ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
        ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
        ("long", "local-timestamp-millis"): pa.timestamp("ms"),
        ("long", "local-timestamp-micros"): pa.timestamp("us"),
        ("string", "uuid"): pa.string(),
    }.get((str(avro.get("type")), str(avro.get("logicalType"))))
