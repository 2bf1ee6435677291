"""The framing of Confluent's serializers: a zero byte, the id of the schema in four bytes, then the payload.

A Protobuf payload begins with the way to its message in the schema's file: the index of a top-level message, then of
a message in it, and so on. Indexes are zigzag varints with their number before them; the first top-level message is
one zero byte. Pure.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kavka.client.schemas.errors import FramingError

MAGIC: Final = 0
FRAME_BYTES: Final = 5
_FRAME: Final = struct.Struct(">bI")
_MAX_INDEXES: Final = 64
_VARINT_BYTES: Final = 5


class Framed(NamedTuple):
    """A value and the schema that it was written with."""

    schema_id: int
    payload: bytes


def frame(schema_id: int, payload: bytes) -> bytes:
    """Return a payload behind its frame."""
    return _FRAME.pack(MAGIC, schema_id) + payload


def unframe(data: bytes) -> Framed:
    """Return what is in a frame. Raise FramingError."""
    if len(data) < FRAME_BYTES:
        raise FramingError(f"it has {len(data)} bytes, less than the {FRAME_BYTES} of a frame")
    magic, schema_id = _FRAME.unpack_from(data)
    if magic != MAGIC:
        raise FramingError(
            f"it begins with byte {data[0]}, not with the 0 of a schema registry's frame"
        )
    return Framed(schema_id, data[FRAME_BYTES:])


def encode_indexes(indexes: tuple[int, ...]) -> bytes:
    """Return the way to a Protobuf message."""
    if indexes == (0,):
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(indexes), *indexes))


def decode_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Return the way to a Protobuf message and where the message begins. Raise FramingError."""
    count, at = _read_varint(payload, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MAX_INDEXES:
        raise FramingError(f"it has {count} message indexes")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(payload, at)
        if index < 0:
            raise FramingError(f"it has the message index {index}")
        indexes.append(index)
    return tuple(indexes), at


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag number and where it ends."""
    raw = 0
    for place in range(_VARINT_BYTES):
        if at >= len(data):
            raise FramingError("it ends within its message indexes")
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at
    raise FramingError("it has a message index that is too large")
