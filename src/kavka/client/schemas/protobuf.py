"""Protobuf values, with protobuf's own library; schemas in text are compiled by grpcio-tools' protoc."""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kavka.client.schemas.errors import FramingError, MissingExtra, PayloadError, SchemaParseError
from kavka.client.schemas.framing import decode_indexes, encode_indexes
from kavka.client.schemas.json_columns import DecodedColumns
from kavka.client.schemas.protobuf_rows import Row, fill_message, message_fields, row_of
from kavka.client.schemas.row_columns import EncodedColumn, decode_rows, encode_rows

if TYPE_CHECKING:
    import pyarrow as pa

_FILE: Final = "kavka_schema.proto"


class ProtobufCodec:
    """One schema in Protobuf: a file of messages. Payloads have the indexes of their message before it."""

    def __init__(
        self,
        text: str,
        references: Mapping[str, str] | None = None,
        message: str | None = None,
    ) -> None:
        """Take the text of a file, or its descriptor in base64 as Confluent's Python client registers it.

        `references` are the files that it imports. `message` is the one that columns and new values have, the first
        unless it is given. Raise SchemaParseError, MissingExtra.
        """
        try:
            from google.protobuf import message_factory
        except ImportError:
            raise MissingExtra("protobuf") from None
        self._file: Any = _compiled(text, references or {})
        self._class_of = message_factory.GetMessageClass
        self._messages = _messages(self._file)
        if not self._messages:
            raise SchemaParseError("the Protobuf schema has no message")
        self._indexes = (0,) if message is None else self._index_of(message)
        self._rows: dict[tuple[int, ...], tuple[Any, Row]] = {}

    def _index_of(self, message: str) -> tuple[int, ...]:
        for indexes, descriptor in self._messages.items():
            if message in (descriptor.full_name, descriptor.name):
                return indexes
        raise SchemaParseError(f"the Protobuf schema has no message {message}")

    def message_class(self) -> Any:
        """Return the class of the message that new values have."""
        return self._class_of(self._messages[self._indexes])

    def encode(self, value: Any) -> bytes:
        """Return the payload of a message, or of the dictionary of one. Raise PayloadError."""
        from google.protobuf import json_format
        from google.protobuf.message import EncodeError

        indexes = self._indexes
        try:
            if isinstance(value, dict):
                value = json_format.ParseDict(value, self.message_class()())
            else:
                indexes = self._index_of(value.DESCRIPTOR.full_name)
            payload: bytes = value.SerializeToString()
            return encode_indexes(indexes) + payload
        except (
            json_format.ParseError,
            EncodeError,
            AttributeError,
            TypeError,
            SchemaParseError,
        ) as error:
            raise PayloadError(f"the value does not fit the Protobuf schema: {error}") from error

    def decode(self, payload: bytes) -> Any:
        """Return the message of a payload. Raise PayloadError."""
        return self._parsed(payload)[0]

    def row(self, payload: bytes) -> dict[str, Any]:
        """Return the message of a payload as a dictionary: unset messages, oneofs and optional fields are None."""
        from google.protobuf import json_format

        parsed, row = self._parsed(payload)
        try:
            made: dict[str, Any] = row(parsed)
        except (OverflowError, ValueError, TypeError, json_format.Error) as error:
            # Such as a Timestamp that no calendar has, or an Any of a type that is not known.
            raise PayloadError(f"its message has no row: {error}") from error
        return made

    def _parsed(self, payload: bytes) -> tuple[Any, Row]:
        from google.protobuf.message import DecodeError

        indexes, start = decode_indexes(payload)
        known = self._rows.get(indexes)
        if known is None:
            descriptor = self._messages.get(indexes)
            if descriptor is None:
                raise FramingError(f"its schema has no message with the indexes {list(indexes)}")
            known = self._rows[indexes] = self._class_of(descriptor), row_of(descriptor)
        try:
            return known[0].FromString(payload[start:]), known[1]
        except DecodeError as error:
            raise PayloadError(
                f"it is no message {known[0].DESCRIPTOR.full_name}: {error}"
            ) from error

    def arrow_schema(self) -> pa.Schema:
        """Return the fields of the message."""
        import pyarrow as pa

        descriptor = self._messages[self._indexes]
        return pa.schema(message_fields(descriptor))

    def decode_columns(self, payloads: pa.Array, schema: pa.Schema) -> DecodedColumns:
        """Decode a column of payloads."""
        return decode_rows(payloads, schema, self.row)

    def encode_row(self, row: Mapping[str, Any]) -> bytes:
        """Return the payload of a row as `row` gives it; None leaves a field unset. Raise PayloadError."""
        made = self.message_class()()
        fill_message(made, row)
        return self.encode(made)

    def encode_column(self, rows: pa.StructArray) -> EncodedColumn:
        """Encode a column of rows."""
        return encode_rows(rows, self.encode_row)


class RawProtobuf(ProtobufCodec):
    """Messages without indexes before them, all of one type, as producers without a registry write them."""

    def encode(self, value: Any) -> bytes:
        """Return the payload of a message, or of the dictionary of one. Raise PayloadError."""
        payload = super().encode(value)
        return payload[decode_indexes(payload)[1] :]

    def _parsed(self, payload: bytes) -> tuple[Any, Row]:
        return super()._parsed(encode_indexes(self._indexes) + payload)


def _messages(file: Any) -> dict[tuple[int, ...], Any]:
    """Return all messages of a file by their indexes."""
    from google.protobuf import descriptor_pb2

    found: dict[tuple[int, ...], Any] = {}

    def add(named: Any, declared: Any, outer: tuple[int, ...]) -> None:
        for index, one in enumerate(declared):
            descriptor = found[(*outer, index)] = named[one.name]
            add(descriptor.nested_types_by_name, one.nested_type, (*outer, index))

    copy = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(copy)
    add(file.message_types_by_name, copy.message_type, ())
    return found


# From a schema to descriptors


def _compiled(text: str, references: Mapping[str, str]) -> Any:
    """Return the descriptor of a file, in a pool of its own."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    files = descriptor_pb2.FileDescriptorSet()
    sources = {**references, _FILE: text}
    described = {name: _described(one, name) for name, one in sources.items()}
    pool = descriptor_pool.DescriptorPool()
    try:
        if any(one is None for one in described.values()):
            files.ParseFromString(_protoc(sources))
        else:
            files.file.extend(_well_known(described) + [described[name] for name in sources])
        for file in files.file:
            pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(
                file.SerializeToString()
            )
        return pool.FindFileByName(_FILE)
    except (TypeError, KeyError) as error:
        raise SchemaParseError(f"the Protobuf schema cannot be loaded: {error}") from error


def _described(text: str, name: str) -> Any:
    """Return the descriptor that a text in base64 has, None for the text of a file."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    found.name = name
    return found


def _well_known(described: Mapping[str, Any]) -> list[Any]:
    """Return the descriptors of Google's own files that files import."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    found: dict[str, Any] = {}

    def add(name: str) -> None:
        if name in found or name in described or not name.startswith("google/"):
            return
        __import__(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        file = descriptor_pool.Default().FindFileByName(name)
        for dependency in file.dependencies:
            add(dependency.name)
        made = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(made)
        found[name] = made

    for file in described.values():
        for name in file.dependency:
            add(name)
    return list(found.values())


def _protoc(sources: Mapping[str, str]) -> bytes:
    """Compile files and return their descriptors, with those of all that they import."""
    with tempfile.TemporaryDirectory(prefix="kavka-protoc-") as directory:
        for name, text in sources.items():
            path = Path(directory, name)
            if not path.resolve().is_relative_to(Path(directory).resolve()):
                raise SchemaParseError(f"the Protobuf schema imports a file {name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        made = Path(directory, "made.bin")
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{directory}", "--include_imports"]
        done = subprocess.run(
            [*command, f"--descriptor_set_out={made}", _FILE],
            capture_output=True,
            text=True,
            check=False,
        )
        if "No module named" in done.stderr:
            raise MissingExtra("grpcio-tools")
        if done.returncode:
            raise SchemaParseError(f"the Protobuf schema cannot be parsed: {done.stderr.strip()}")
        return made.read_bytes()
