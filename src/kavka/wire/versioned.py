"""Messages outside of requests: two bytes of version, then the message in that version."""

from __future__ import annotations

from struct import Struct
from typing import TypeVar

from kavka.io import Buffer
from kavka.wire.codec import CorruptFrame, decode, encode_into
from kavka.wire.schema import schema_of

M = TypeVar("M")

_VERSION = Struct(">h")


def encode_versioned(message: object, version: int) -> bytes:
    """Return the version and the message. Raise as `codec.encode_into`; messages with records are not meant."""
    out = bytearray(_VERSION.pack(version))
    return bytes(encode_into(message, version, out, []))


def version_of(name: str, buffer: Buffer) -> int:
    """Return the version in front of what is called `name`. Raise CorruptFrame when two bytes are not there."""
    if len(buffer) < _VERSION.size:
        raise CorruptFrame(name, -1, 0, "no version in front")
    version: int = _VERSION.unpack_from(buffer)[0]
    return version


def decode_versioned(cls: type[M], buffer: Buffer) -> M:
    """Return the message that fills `buffer` after its version. Raise CorruptFrame, also for a version not known."""
    schema = schema_of(cls)
    version = version_of(schema.name, buffer)
    if version not in schema.versions:
        raise CorruptFrame(schema.name, version, 0, "the version is not known")
    return decode(cls, version, buffer, _VERSION.size)
