"""Values of a topic by a schema that is given: in a file, or by a schema registry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kavka.client.schemas.codecs import Codec, codec_of
from kavka.client.schemas.errors import FramingError, SchemaError, SchemaNotFound
from kavka.client.schemas.framed_columns import ColumnDecoder
from kavka.client.schemas.framing import decode_indexes, unframe
from kavka.client.schemas.json_columns import DecodedColumns
from kavka.client.schemas.json_schema import schema_of_json_schema
from kavka.client.schemas.registry import (
    AVRO,
    JSON,
    PROTOBUF,
    RegisteredSchema,
    Schema,
    SchemaFiles,
    SchemaRegistry,
)
from kavka.client.schemas.serializers import SchemaDeserializer
from kavka.sql.errors import SqlError
from kavka.sql.topic_table import JsonValues, ValueFormat

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS: Final = {".avsc": AVRO, ".proto": PROTOBUF, ".json": JSON}


class PlainValues:
    """Values of one schema without frames."""

    def __init__(self, codec: Codec) -> None:
        """Set the schema. Raise SchemaParseError when it has no fields."""
        self._codec = codec
        self.schema = codec.arrow_schema()

    def decode(self, values: pa.Array, fields: Sequence[str]) -> DecodedColumns:
        """Decode some fields of a column."""
        import pyarrow as pa

        return self._codec.decode_columns(
            values, pa.schema([self.schema.field(name) for name in fields])
        )


def from_file(given: str, sample: Sequence[bytes]) -> ValueFormat:
    """Return the format of values by a schema in a file, `FILE#Message` for a message of Protobuf.

    Whether they have frames shows in the sample. Raise SqlError, SchemaError.
    """
    name, _, message = given.partition("#")
    path = Path(name)
    kind = _KINDS.get(path.suffix)
    if kind is None:
        raise SqlError(f"The schema {name} is none of {', '.join(_KINDS)}, by the end of its name.")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SqlError(f"The schema {name} cannot be read: {error.strerror}.") from error
    framed = bool(sample) and all(map(_has_frame, sample))
    if kind == JSON and not framed:
        return JsonValues(schema_of_json_schema(text, name))
    source = SchemaFiles(Schema(text, kind))
    codec = codec_of(Schema(text, kind), source, message=message or None)
    if kind == JSON:
        return ColumnDecoder(SchemaDeserializer(source), codec)
    plain = PlainValues(
        codec_of(Schema(text, kind), source, message=message or None, has_indexes=False)
    )
    decoder = ColumnDecoder(SchemaDeserializer(source), codec)
    # A value without a frame may begin as one: then the schema decides.
    return decoder if framed and _misfits(decoder, sample) <= _misfits(plain, sample) else plain


def _has_frame(value: bytes) -> bool:
    try:
        unframe(value)
    except FramingError:
        return False
    return True


def _misfits(values: ValueFormat, sample: Sequence[bytes]) -> int:
    """Return how many values of a sample cannot be decoded."""
    import pyarrow as pa

    decoded = values.decode(pa.array(sample, pa.binary()), values.schema.names)
    return len({one.row for one in decoded.bad})


def from_registry(
    registry: SchemaRegistry, topic: str, sample: Sequence[bytes]
) -> tuple[ValueFormat, str] | None:
    """Return the format of framed values and where it comes from; None where most values have no frame.

    Columns are those of the latest version of the subject `TOPIC-value` or, without one, of a recent record's
    schema. Raise SchemaError.
    """
    framed = [value for value in sample if _has_frame(value)]
    if sample and 2 * len(framed) <= len(sample):
        return None
    latest = _latest(registry, f"{topic}-value")
    if latest is None and not framed:
        return None
    if latest is not None:
        schema, note = (
            latest.schema,
            f"fields: version {latest.version} of subject {latest.subject}",
        )
    else:
        schema_id = unframe(framed[0]).schema_id
        schema, note = registry.schema(schema_id), f"fields: schema {schema_id} of the registry"
    codec = codec_of(schema, registry, message=_message_of(schema, registry, framed))
    return ColumnDecoder(SchemaDeserializer(registry), codec), note


def _latest(registry: SchemaRegistry, subject: str) -> RegisteredSchema | None:
    try:
        return registry.version(subject)
    except SchemaNotFound:
        return None


def _message_of(schema: Schema, registry: SchemaRegistry, framed: Sequence[bytes]) -> str | None:
    """Return the name of the message that a recent record has."""
    if schema.kind != PROTOBUF or not framed:
        return None
    codec = codec_of(schema, registry)
    try:
        decode_indexes(unframe(framed[0]).payload)
        return str(codec.decode(unframe(framed[0]).payload).DESCRIPTOR.full_name)
    except SchemaError:
        return None
