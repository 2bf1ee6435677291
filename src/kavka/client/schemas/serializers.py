"""Serializers and deserializers with a schema registry, for `value.serializer`, `key.deserializer` and the like.

    registry = SchemaRegistry("http://localhost:8081")
    producer = Producer({..., "value.serializer": AvroSerializer(registry, text)})
    consumer = Consumer({..., "value.deserializer": SchemaDeserializer(registry)})

The bytes are those of Confluent's serializers, and so are the subjects, `topic-key` and `topic-value`, unless another
is given.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from typing import Any

from kavka.client.schemas.codecs import Codec, codec_of
from kavka.client.schemas.errors import PayloadError
from kavka.client.schemas.framing import frame, unframe
from kavka.client.schemas.registry import (
    AVRO,
    JSON,
    PROTOBUF,
    Schema,
    SchemaReference,
    SchemaRegistry,
    SchemaSource,
)
from kavka.client.serialization import SerializationContext

Subject = str | Callable[[SerializationContext], str]
"""The subject of a schema, or a function that names it for a topic and field."""


def topic_subject(context: SerializationContext) -> str:
    """Return `topic-key` or `topic-value`, the subject of Confluent's default strategy."""
    return f"{context.topic}-{context.field}"


class Serializer:
    """Writes values of one schema, which is registered, or looked up, before the first value is written."""

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: Schema,
        subject: Subject = topic_subject,
        *,
        register: bool = True,
        normalize: bool = False,
        validate_json: bool = True,
    ) -> None:
        """Take a schema and its subject; without `register` the subject must have it already.

        Values of a JSON Schema are checked against it unless `validate_json` is false.

        Raise SchemaParseError, MissingExtra; nothing is requested yet, unless the schema refers to others.
        """
        self._registry = registry
        self._schema = schema
        self._subject = subject
        self._register = register
        self._normalize = normalize
        self._codec = codec_of(schema, registry, validate_json=validate_json)
        self._ids: dict[str, int] = {}

    def __call__(self, value: Any, context: SerializationContext | None = None) -> bytes | None:
        """Return the bytes of a value; None stays None. Raise PayloadError, RegistryError, RegistryUnavailable.

        A producer gives the context, which names the subject unless one was given.
        """
        if value is None:
            return None
        payload = self._codec.encode(value)
        return frame(self.schema_id(context), payload)

    def schema_id(self, context: SerializationContext | None = None) -> int:
        """Return the id of the schema. Raise IncompatibleSchema, SchemaNotFound, RegistryUnavailable, ValueError."""
        subject = self._subject
        if not isinstance(subject, str):
            if context is None:
                raise ValueError("the subject depends on the topic: give a context, or a subject")
            subject = subject(context)
        known = self._ids.get(subject)
        if known is None:
            find = self._registry.register if self._register else self._registry.look_up
            known = self._ids[subject] = find(subject, self._schema, normalize=self._normalize)
        return known


class AvroSerializer(Serializer):
    """Writes what fastavro takes for a schema: dictionaries for records."""

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | Schema,
        subject: Subject = topic_subject,
        **options: Any,
    ) -> None:
        """Take an Avro schema, as text or with references; options as `Serializer`."""
        made = schema if isinstance(schema, Schema) else Schema(schema, AVRO)
        super().__init__(registry, made, subject, **options)


class JsonSerializer(Serializer):
    """Writes JSON that is valid for a JSON Schema."""

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | Schema,
        subject: Subject = topic_subject,
        **options: Any,
    ) -> None:
        """Take a JSON Schema, as text or with references; options as `Serializer`."""
        made = schema if isinstance(schema, Schema) else Schema(schema, JSON)
        super().__init__(registry, made, subject, **options)


class ProtobufSerializer(Serializer):
    """Writes messages of a class that protoc has generated."""

    def __init__(
        self,
        registry: SchemaRegistry,
        message: type[Any],
        subject: Subject = topic_subject,
        **options: Any,
    ) -> None:
        """Take a class of messages. Its file, and those that it imports, are registered; options as `Serializer`."""
        file = message.DESCRIPTOR.file
        references = _registered_imports(registry, file, options.get("register", True))
        super().__init__(
            registry, Schema(_described(file), PROTOBUF, references), subject, **options
        )


def _described(file: Any) -> str:
    return base64.b64encode(file.serialized_pb).decode()


def _registered_imports(
    registry: SchemaRegistry, file: Any, register: bool
) -> tuple[SchemaReference, ...]:
    """Register the files that a file imports, each under its name, except Google's own."""
    found = []
    for imported in file.dependencies:
        if imported.name.startswith("google/protobuf/"):
            continue
        schema = Schema(
            _described(imported), PROTOBUF, _registered_imports(registry, imported, register)
        )
        (registry.register if register else registry.look_up)(imported.name, schema)
        version = registry.version(imported.name, "latest")
        found.append(SchemaReference(imported.name, imported.name, version.version))
    return tuple(found)


class SchemaDeserializer:
    """Reads values of any schema of a registry: Avro and JSON as Python values, Protobuf as messages.

    With a `reader`, Avro values are read as values of its schema, by Avro's rules.
    """

    def __init__(
        self, source: SchemaSource, reader: str | None = None, *, validate_json: bool = True
    ) -> None:
        """Take a `SchemaRegistry` or `SchemaFiles`. Raise SchemaParseError, MissingExtra.

        Values of a JSON Schema are checked against it unless `validate_json` is false.
        """
        self._validate_json = validate_json
        self._source = source
        self._codecs: dict[int, Codec] = {}
        self._lock = threading.Lock()
        self._reader: Any = None
        if reader is not None:
            from kavka.client.schemas.avro import AvroCodec

            self._reader = AvroCodec(reader)

    def __call__(self, data: bytes | None) -> Any:
        """Return a value; None stays None. Raise FramingError, PayloadError, SchemaNotFound, RegistryUnavailable."""
        if data is None:
            return None
        schema_id, payload = unframe(data)
        codec = self.codec(schema_id)
        try:
            if self._reader is not None and isinstance(codec, type(self._reader)):
                return codec.decode(payload, self._reader)
            return codec.decode(payload)
        except PayloadError as error:
            raise type(error)(f"a value with schema {schema_id}: {error}") from error

    def codec(self, schema_id: int) -> Codec:
        """Return what reads values of a schema. Raise SchemaNotFound, SchemaParseError, RegistryUnavailable."""
        known = self._codecs.get(schema_id)
        if known is None:
            schema = self._source.schema(schema_id)
            made = codec_of(schema, self._source, validate_json=self._validate_json)
            with self._lock:
                known = self._codecs.setdefault(schema_id, made)
        return known
