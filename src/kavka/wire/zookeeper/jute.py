"""Jute, ZooKeeper's serialization: fields one after another, numbers big-endian, no versions and no tags.

    int 4 bytes   long 8   boolean 1   buffer: int length, bytes; -1 is null   ustring: a buffer of UTF-8
    vector: int count, elements; -1 is null       record: its fields

A record is a NamedTuple with the types below as annotations; `encode` and `decode` follow them:

    class GetDataRequest(NamedTuple):
        path: ustring
        watch: boolean
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

i32 = Annotated[int, "int"]
i64 = Annotated[int, "long"]
boolean = Annotated[bool, "boolean"]
buffer = Annotated[bytes | None, "buffer"]
ustring = Annotated[str, "ustring"]

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
Record = TypeVar("Record", bound=NamedTuple)
Write = Callable[[bytearray, Any], None]
Read = Callable[["Reader"], Any]


class CorruptPacket(ValueError):
    """Bytes that are no record of the kind that was expected: close the connection."""


class Reader:
    """A position in a frame. Every read raises CorruptPacket beyond its end."""

    __slots__ = ("_frame", "position")

    def __init__(self, frame: bytes | bytearray | memoryview) -> None:
        """Stand at the beginning."""
        self._frame = memoryview(frame)
        self.position = 0

    @property
    def remaining(self) -> int:
        """Return the number of bytes left."""
        return len(self._frame) - self.position

    def take(self, length: int) -> memoryview:
        """Return the next bytes."""
        end = self.position + length
        if length < 0 or end > len(self._frame):
            raise CorruptPacket(f"{length} bytes wanted at {self.position} of {len(self._frame)}")
        taken = self._frame[self.position : end]
        self.position = end
        return taken

    def read_int(self) -> int:
        """Read four bytes."""
        value: int = _INT.unpack(self.take(4))[0]
        return value

    def read_long(self) -> int:
        """Read eight bytes."""
        value: int = _LONG.unpack(self.take(8))[0]
        return value

    def read_boolean(self) -> bool:
        """Read one byte."""
        return self.take(1)[0] != 0

    def read_buffer(self) -> bytes | None:
        """Read bytes behind their length; None for null."""
        length = self.read_int()
        if length == -1:
            return None
        return bytes(self.take(length))

    def read_ustring(self) -> str:
        """Read a text; null is the empty one, because no field of the protocol distinguishes them."""
        data = self.read_buffer()
        if data is None:
            return ""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise CorruptPacket(f"text that is not UTF-8: {error}") from error


def encode(record: NamedTuple) -> bytearray:
    """Return the bytes of a record."""
    out = bytearray()
    append(out, record)
    return out


def append(out: bytearray, record: NamedTuple) -> None:
    """Write a record behind what is in `out`."""
    for (write, _read), value in zip(_fields(type(record)), record, strict=True):
        write(out, value)


def decode(kind: type[Record], reader: Reader) -> Record:
    """Read a record. Raise CorruptPacket."""
    return kind._make([read(reader) for _write, read in _fields(kind)])


@cache
def _fields(kind: type[NamedTuple]) -> tuple[tuple[Write, Read], ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_codec(hints[name]) for name in kind._fields)


def _codec(hint: Any) -> tuple[Write, Read]:
    if get_origin(hint) is list:
        (element,) = get_args(hint)
        return _vector(*_codec(element))
    if get_origin(hint) is Annotated:
        return _PRIMITIVES[get_args(hint)[1]]
    kind: Any = hint
    return append, lambda reader: decode(kind, reader)


def _vector(write: Write, read: Read) -> tuple[Write, Read]:
    def write_all(out: bytearray, values: list[Any]) -> None:
        out += _INT.pack(len(values))
        for value in values:
            write(out, value)

    def read_all(reader: Reader) -> list[Any]:
        count = reader.read_int()
        if count > reader.remaining:  # an element has a byte at least
            raise CorruptPacket(f"vector of {count} elements in {reader.remaining} bytes")
        return [read(reader) for _ in range(count)]

    return write_all, read_all


def _write_buffer(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out += _INT.pack(-1)
    else:
        out += _INT.pack(len(data))
        out += data


_PRIMITIVES: dict[str, tuple[Write, Read]] = {
    "int": (lambda out, value: out.extend(_INT.pack(value)), Reader.read_int),
    "long": (lambda out, value: out.extend(_LONG.pack(value)), Reader.read_long),
    "boolean": (lambda out, value: out.append(1 if value else 0), Reader.read_boolean),
    "buffer": (_write_buffer, Reader.read_buffer),
    "ustring": (lambda out, text: _write_buffer(out, text.encode()), Reader.read_ustring),
}
