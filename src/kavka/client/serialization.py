"""Serializers and deserializers: what they are given, how they are called, and the errors that name the record. Pure.

A serializer is a callable of the value, or of the value and a `SerializationContext`, which has topic, field and
headers. So Confluent's serializers are ones as they are, as are functions like `str.encode` and `json.loads`. An
object with kafka-python's and Java's method `serialize(topic, headers, data)` (`deserialize`) goes, too.
"""

from __future__ import annotations

import inspect
import struct
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kavka.client.config import Config
from kavka.errors import PickledError
from kavka.settings.declaration import InvalidSetting

_CONTEXT_NAMES: Final = ("ctx", "context")
_MOST_SHOWN: Final = 60


class SerializationContext(NamedTuple):
    """The place of a key or value in its record, for serializers and deserializers that take it as second argument."""

    topic: str
    field: str
    """`key` or `value`."""
    headers: Sequence[tuple[str, bytes | None]]
    """In order; names may repeat."""
    partition: int | None = None
    """None where a record that is written does not have one yet."""
    offset: int | None = None
    """Of a record that was read."""

    def add_header(self, name: str, value: bytes | None) -> None:
        """Add a header to a record that is written. Raise TypeError for one that was read."""
        if not isinstance(self.headers, list):
            raise TypeError("a record that was read takes no header")
        self.headers.append((name, value))


class RecordSerializationError(PickledError, ValueError):
    """A serializer raised for the key or the value of a record; its exception is the `__cause__`."""

    def __init__(
        self, topic: str, partition: int | None, key: Any, field: str, cause: Exception
    ) -> None:
        """Name the record; `field` is "key" or "value"."""
        what = described(topic, key, partition)
        super().__init__(f"the {field} of {what} was not serialized: {cause!r}")
        self.topic = topic
        self.partition = partition
        self.key = key
        self.field = field


def described(topic: str, key: Any, partition: int | None = None) -> str:
    """Return a text that names a record which has no offset yet."""
    shown = repr(key)
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]}..."
    where = "" if partition is None else f", partition {partition}"
    return f"a record for topic {topic}{where}, key {shown}"


class FieldFunction(NamedTuple):
    """A serializer or deserializer, and whether it is called with a context."""

    call: Callable[..., Any]
    wants_context: bool


def field_function(config: Config, name: str) -> FieldFunction | None:
    """Return the function of a setting, None for bytes as they are.

    Raise InvalidSetting for what is neither a callable, nor an object with `serialize` or `deserialize`, nor the name
    of one of Java's common classes.
    """
    given = config.value(name)
    if given is None:
        return None
    method = getattr(given, "deserialize" if name.endswith("deserializer") else "serialize", None)
    if callable(given):
        return FieldFunction(given, _wants_context(given))
    if callable(method):
        return FieldFunction(_with_context(method), wants_context=True)
    simple = str(given).rpartition(".")[2]
    if simple not in _JAVAS:
        kind = "Deserializer" if name.endswith("deserializer") else "Serializer"
        names = ", ".join(sorted(one for one in _JAVAS if one.endswith(kind)))
        raise InvalidSetting(name, given, f"Give a callable, or one of {names}")
    known = _JAVAS[simple]
    return None if known is None else FieldFunction(known, wants_context=False)


def _wants_context(function: Callable[..., Any]) -> bool:
    """Return whether the second argument is needed, or is called as Confluent's serializers call it."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of C, without a signature
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [one for one in parameters if one.kind in kinds]
    if len(positional) < 2:
        return False
    second = positional[1]
    return second.default is inspect.Parameter.empty or second.name in _CONTEXT_NAMES


def _with_context(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(data: Any, context: SerializationContext) -> Any:
        return method(context.topic, context.headers, data)

    return call


# Java's common ones: big-endian, as its clients write them. Null stays null.


def _packs(layout: str) -> Callable[[Any], bytes | None]:
    pack = struct.Struct(layout).pack
    return lambda value: None if value is None else pack(value)


def _unpacks(layout: str, name: str) -> Callable[[bytes | None], Any]:
    shape = struct.Struct(layout)

    def unpack(data: bytes | None) -> Any:
        if data is None:
            return None
        if len(data) != shape.size:
            raise ValueError(f"{name} has {shape.size} bytes, not {len(data)}")
        return shape.unpack(data)[0]

    return unpack


def _encode_text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _decode_text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _encode_uuid(value: uuid.UUID | None) -> bytes | None:
    return None if value is None else str(value).encode()


def _decode_uuid(value: bytes | None) -> uuid.UUID | None:
    return None if value is None else uuid.UUID(value.decode())


_NUMBERS: Final = {"Short": ">h", "Integer": ">i", "Long": ">q", "Float": ">f", "Double": ">d"}
_JAVAS: Final[dict[str, Callable[..., Any] | None]] = {
    "StringSerializer": _encode_text,
    "StringDeserializer": _decode_text,
    "UUIDSerializer": _encode_uuid,
    "UUIDDeserializer": _decode_uuid,
    **{f"{name}Serializer": _packs(layout) for name, layout in _NUMBERS.items()},
    **{f"{name}Deserializer": _unpacks(layout, name) for name, layout in _NUMBERS.items()},
    **dict.fromkeys(
        f"{name}{kind}"
        for name in ("ByteArray", "Bytes", "ByteBuffer")
        for kind in ("Serializer", "Deserializer")
    ),
}
"""By the simple name of the class; None leaves bytes."""
