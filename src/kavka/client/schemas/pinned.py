"""A schema with all that reads and writes columns of it in another process, and the columns of values.

Spark plans on a driver and reads and writes in workers: the driver asks the registry for a schema, its id and what it
refers to, and workers ask for nothing but the schemas of the ids that they meet, each once.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.client.schemas.codecs import Codec, codec_of
from kavka.client.schemas.errors import PayloadError, SchemaError, SchemaNotFound, SchemaParseError
from kavka.client.schemas.framed_columns import ColumnDecoder
from kavka.client.schemas.framing import frame
from kavka.client.schemas.json_columns import BadValue, DecodedColumns
from kavka.client.schemas.registry import (
    AVRO,
    JSON,
    PROTOBUF,
    RegisteredSchema,
    Schema,
    SchemaRegistry,
)
from kavka.client.schemas.row_columns import EncodedColumn
from kavka.client.schemas.serializers import SchemaDeserializer
from kavka.io import Clock
from kavka.net.clock import SystemClock
from kavka.values import frozen

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_FILES: Final = {".avsc": AVRO, ".proto": PROTOBUF, ".json": JSON}
"""Kinds of schemas by the end of a file's name."""
_UNKNOWN_FOR_MS: Final = 30_000
_UNKNOWN_IDS: Final = 1000
_STACK_CHARACTERS: Final = 4000


@frozen
class PinnedSchema:
    """A schema for the columns of a topic's keys or values; plain values, to be sent to other processes."""

    schema: Schema
    references: tuple[tuple[str, Schema], ...] = ()
    message: str | None = None
    """Of Protobuf: the message of the columns, else the first of its file."""
    is_framed: bool = True
    schema_id: int | None = None
    """The id that new values have in their frames; None: they cannot be written with frames."""
    registry: tuple[tuple[str, str], ...] = ()
    """Settings of the registry that knows the other ids; empty where the schema stands for all ids."""
    validate_json: bool = True


def schema_in_file(path: str | Path) -> Schema:
    """Return the schema in a file: .avsc, .proto or .json. Raise SchemaParseError, OSError."""
    kind = SCHEMA_FILES.get(Path(path).suffix)
    if kind is None:
        raise SchemaParseError(
            f"the schema {path} is none of {', '.join(SCHEMA_FILES)}, by the end of its name"
        )
    return Schema(Path(path).read_text(encoding="utf-8"), kind)


def pin_file(
    path: str | Path,
    *,
    framed: bool = False,
    schema_id: int | None = None,
    validate_json: bool = True,
) -> PinnedSchema:
    """Return the schema in a file, of Protobuf `FILE#Message` for another message than its first.

    Values have no frames unless they are `framed`: then the schema is taken for every id, and `schema_id` is that of
    new values. Raise SchemaParseError, MissingExtra, OSError.
    """
    name, _, message = str(path).partition("#")
    made = PinnedSchema(
        schema_in_file(name), (), message or None, framed, schema_id, (), validate_json
    )
    target_codec(made)
    return made


def pin_subject(
    registry: str | Mapping[str, Any],
    subject: str,
    version: int | str = "latest",
    *,
    message: str | None = None,
    validate_json: bool = True,
) -> PinnedSchema:
    """Return a version of a subject of a registry, which is given by a URL or by the settings of `SchemaRegistry`.

    Raise SchemaNotFound, RegistryUnavailable, SchemaParseError, MissingExtra.
    """
    settings = _settings(registry)
    client = registry_client(settings)
    found = client.version(subject, version)
    return _pinned(client, settings, found, message, validate_json)


def pin_registered(
    registry: str | Mapping[str, Any],
    subject: str,
    path: str | Path,
    *,
    validate_json: bool = True,
) -> PinnedSchema:
    """Register the schema in a file, unless its subject has it, and return it.

    Raise IncompatibleSchema, RegistryError, RegistryUnavailable, SchemaParseError, MissingExtra, OSError.
    """
    name, _, message = str(path).partition("#")
    settings = _settings(registry)
    client = registry_client(settings)
    schema = schema_in_file(name)
    codec_of(schema, client, message=message or None)
    made = RegisteredSchema(subject, 0, client.register(subject, schema), schema)
    return _pinned(client, settings, made, message or None, validate_json)


def _pinned(
    client: SchemaRegistry,
    settings: tuple[tuple[str, str], ...],
    found: RegisteredSchema,
    message: str | None,
    validate_json: bool,
) -> PinnedSchema:
    references = tuple(client.resolved(found.schema).items())
    made = PinnedSchema(
        found.schema, references, message, True, found.schema_id, settings, validate_json
    )
    target_codec(made)
    return made


def _settings(registry: str | Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    given = {"url": registry} if isinstance(registry, str) else registry
    return tuple(sorted((name, str(value)) for name, value in given.items()))


@lru_cache(maxsize=16)
def registry_client(settings: tuple[tuple[str, str], ...]) -> SchemaRegistry:
    """Return this process's client of a registry. Raise ValueError for a setting that is not known."""
    return SchemaRegistry(dict(settings))


class PinnedSource:
    """Finds schemas by id: the pinned one, those of its registry, or the pinned one for every id without a registry.

    An id that the registry does not know is asked again after half a minute, so that damaged values cost no request
    each.
    """

    def __init__(self, pinned: PinnedSchema, clock: Clock | None = None) -> None:
        """Take the schema; nothing is requested yet."""
        self._pinned = pinned
        self._clock = clock or SystemClock()
        self._unknown: dict[int, tuple[int, SchemaNotFound]] = {}

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with an id. Raise SchemaNotFound, RegistryUnavailable, RegistryError."""
        if schema_id == self._pinned.schema_id or not self._pinned.registry:
            return self._pinned.schema
        unknown = self._unknown.get(schema_id)
        if unknown is not None and self._clock.tick_ms() - unknown[0] < _UNKNOWN_FOR_MS:
            raise unknown[1].with_traceback(None)
        try:
            return registry_client(self._pinned.registry).schema(schema_id)
        except SchemaNotFound as error:
            if len(self._unknown) >= _UNKNOWN_IDS:
                self._unknown.clear()
            self._unknown[schema_id] = self._clock.tick_ms(), error
            raise

    def resolved(self, schema: Schema) -> dict[str, Schema]:
        """Return what a schema refers to."""
        if schema == self._pinned.schema:
            return dict(self._pinned.references)
        return registry_client(self._pinned.registry).resolved(schema)


def target_codec(pinned: PinnedSchema) -> Codec:
    """Return what reads and writes values of the schema, without frames. Raise SchemaParseError, MissingExtra."""
    return codec_of(
        pinned.schema,
        PinnedSource(pinned),
        validate_json=pinned.validate_json,
        message=pinned.message,
        has_indexes=pinned.is_framed,
    )


class ValueFailure(NamedTuple):
    """A value that cannot be decoded or encoded: its row, and the error."""

    row: int
    reason: str
    kind: str
    """The name of the error's class."""
    stack: str
    """The traceback of the error and of its causes, the end of it where it is long."""


class PinnedColumns:
    """Decodes and encodes columns of a schema's values, with frames or without; to be made once in a process."""

    def __init__(self, pinned: PinnedSchema, schema: pa.Schema | None = None) -> None:
        """Take the schema, and the columns that it is decoded into if they have other types than its own.

        Raise SchemaParseError, MissingExtra.
        """
        self._pinned = pinned
        self._codec = target_codec(pinned)
        self.schema = self._codec.arrow_schema() if schema is None else schema
        source = PinnedSource(pinned)
        self._one = SchemaDeserializer(source, validate_json=pinned.validate_json)
        self._framed = ColumnDecoder(self._one, self._codec, self.schema)

    def decode(self, values: pa.Array) -> DecodedColumns:
        """Decode a column of binary values; null values, and those that cannot be decoded, give nulls.

        Raise RegistryUnavailable, RegistryError: a value is not bad because the registry does not answer.
        """
        if self._pinned.is_framed:
            return self._framed.decode(values, self.schema.names)
        return self._codec.decode_columns(values, self.schema)

    def encode(self, rows: pa.StructArray) -> EncodedColumn:
        """Encode a column of structs; null rows, and those that cannot be encoded, give null. Raise SchemaError."""
        encoded = self._codec.encode_column(rows)
        if not self._pinned.is_framed:
            return encoded
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._pinned.schema_id is None:
            raise SchemaError("values with frames need the id of their schema: give schema_id")
        prefix = pa.scalar(frame(self._pinned.schema_id, b""), pa.binary())
        framed = pc.binary_join_element_wise(prefix, encoded.payloads, pa.scalar(b"", pa.binary()))
        return EncodedColumn(framed, encoded.bad)

    def failures(self, values: pa.Array, bad: list[BadValue]) -> list[ValueFailure]:
        """Return why values cannot be decoded, with the stack of the error that each gives alone."""
        return [self._failure(values[one.row].as_py(), one) for one in bad]

    def _failure(self, value: bytes, bad: BadValue) -> ValueFailure:
        try:
            self._one(value) if self._pinned.is_framed else self._codec.decode(value)
        except SchemaError as error:
            return failure_of(bad, error)
        # It is a value of its schema, but not of the columns' types.
        return failure_of(bad, PayloadError(bad.reason))


def failure_of(bad: BadValue, error: SchemaError) -> ValueFailure:
    """Return a failure with the stack of an error."""
    stack = "".join(traceback.format_exception(error))[-_STACK_CHARACTERS:]
    kind = type(error)
    return ValueFailure(bad.row, bad.reason, f"{kind.__module__}.{kind.__qualname__}", stack)
