"""Values of one schema: what every kind of schema can do, and the way from a registry's schema to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kavka.client.schemas.errors import SchemaParseError
from kavka.client.schemas.json_columns import DecodedColumns
from kavka.client.schemas.registry import AVRO, JSON, PROTOBUF, Schema, SchemaSource
from kavka.client.schemas.row_columns import EncodedColumn

if TYPE_CHECKING:
    import pyarrow as pa


class Codec(Protocol):
    """Writes and reads values of one schema, without a frame."""

    def encode(self, value: Any) -> bytes:
        """Return the payload of a value. Raise PayloadError when it does not fit the schema."""
        ...

    def decode(self, payload: bytes) -> Any:
        """Return the value of a payload. Raise PayloadError."""
        ...

    def arrow_schema(self) -> pa.Schema:
        """Return the fields of values as columns. Raise SchemaParseError when a value has no fields."""
        ...

    def decode_columns(self, payloads: pa.Array, schema: pa.Schema) -> DecodedColumns:
        """Decode a column of payloads into the columns of a schema, which may be that of another version."""
        ...

    def encode_column(self, rows: pa.StructArray) -> EncodedColumn:
        """Encode a column of structs whose fields are those of `arrow_schema`, or of types that can stand for them."""
        ...


def codec_of(
    schema: Schema,
    source: SchemaSource,
    *,
    validate_json: bool = True,
    message: str | None = None,
    has_indexes: bool = True,
) -> Codec:
    """Return what reads and writes values of a schema. Raise SchemaParseError, SchemaNotFound, MissingExtra.

    Values of a JSON Schema are checked against it unless `validate_json` is false. Of Protobuf, `message` is the one
    that columns and new values have (the file's first), and payloads begin with its indexes if `has_indexes`.
    """
    references = source.resolved(schema)
    match schema.kind:
        case kind if kind == AVRO:
            from kavka.client.schemas.avro import AvroCodec

            return AvroCodec(schema.text, {name: one.text for name, one in references.items()})
        case kind if kind == JSON:
            from kavka.client.schemas.json import JsonCodec

            texts = {name: one.text for name, one in references.items()}
            return JsonCodec(schema.text, texts, validate=validate_json)
        case kind if kind == PROTOBUF:
            from kavka.client.schemas.protobuf import ProtobufCodec, RawProtobuf

            kind_of = ProtobufCodec if has_indexes else RawProtobuf
            texts = {name: one.text for name, one in references.items()}
            return kind_of(schema.text, texts, message)
        case _:
            raise SchemaParseError(f"schemas of kind {schema.kind} are not supported")
