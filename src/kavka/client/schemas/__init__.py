"""Schemas of keys and values: JSON, Avro and Protobuf, with a schema registry or with files; needs the extra `schemas`.

Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kavka.client.schemas.avro import AvroCodec
    from kavka.client.schemas.codecs import Codec, codec_of
    from kavka.client.schemas.errors import (
        FramingError,
        IncompatibleSchema,
        MissingExtra,
        PayloadError,
        RegistryError,
        RegistryUnavailable,
        SchemaError,
        SchemaNotFound,
        SchemaParseError,
    )
    from kavka.client.schemas.framed_columns import ColumnDecoder
    from kavka.client.schemas.json import JsonCodec
    from kavka.client.schemas.protobuf import ProtobufCodec
    from kavka.client.schemas.registry import (
        RegisteredSchema,
        Schema,
        SchemaFiles,
        SchemaReference,
        SchemaRegistry,
    )
    from kavka.client.schemas.serializers import (
        AvroSerializer,
        JsonSerializer,
        ProtobufSerializer,
        SchemaDeserializer,
        Serializer,
        topic_subject,
    )

_HOMES = {
    "avro": ("AvroCodec",),
    "codecs": ("Codec", "codec_of"),
    "errors": (
        "FramingError", "IncompatibleSchema", "MissingExtra", "PayloadError", "RegistryError",
        "RegistryUnavailable", "SchemaError", "SchemaNotFound", "SchemaParseError",
    ),
    "framed_columns": ("ColumnDecoder",),
    "json": ("JsonCodec",),
    "protobuf": ("ProtobufCodec",),
    "registry": ("RegisteredSchema", "Schema", "SchemaFiles", "SchemaReference", "SchemaRegistry"),
    "serializers": (
        "AvroSerializer", "JsonSerializer", "ProtobufSerializer", "SchemaDeserializer", "Serializer",
        "topic_subject",
    ),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AvroCodec",
    "AvroSerializer",
    "Codec",
    "ColumnDecoder",
    "FramingError",
    "IncompatibleSchema",
    "JsonCodec",
    "JsonSerializer",
    "MissingExtra",
    "PayloadError",
    "ProtobufCodec",
    "ProtobufSerializer",
    "RegisteredSchema",
    "RegistryError",
    "RegistryUnavailable",
    "Schema",
    "SchemaDeserializer",
    "SchemaError",
    "SchemaFiles",
    "SchemaNotFound",
    "SchemaParseError",
    "SchemaReference",
    "SchemaRegistry",
    "Serializer",
    "codec_of",
    "topic_subject",
]


if not TYPE_CHECKING:  # else a type checker would take every name

    def __getattr__(name: str) -> Any:
        """Import a public name from the module that has it."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
