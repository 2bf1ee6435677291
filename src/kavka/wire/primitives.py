"""Functions that generated decoders and encoders call at run time: parts too long or too rare to be inlined.

They raise ValueError, IndexError or struct.error on bad bytes; `kavka.wire.codec` makes a CorruptFrame of these.
Variable-length integers have at most five bytes and are unsigned: lengths, counts and tags.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import Struct
from typing import Any

from kavka.errors import ErrorCode, KafkaError
from kavka.io import Buffer, FileRange, Sendable

INT32_MAX = 0x7FFF_FFFF
STRING_MAX = 0x7FFF
"""Bytes of UTF-8 in a string, also in versions with a larger compact length."""
TAGS_MAX = 1024
"""Tagged fields in one structure; those that a version knows are a handful, and each costs time."""
COPIED_BYTES = 4096
"""Records shorter than this are copied beside their neighbours, because another part to send costs more."""


@cache
def struct_of(characters: str) -> Struct:
    """Return the one big-endian Struct of these characters."""
    return Struct(">" + characters)


def read_varint(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Return the value of a varint and the position after it; `first` is its first byte, before `position`."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > INT32_MAX:
                break
            return value, position
    raise ValueError("a variable-length integer is larger than 31 bits")


def read_text_length(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Read as `read_varint` the length plus one of a string."""
    value, position = read_varint(data, position, first)
    if value > STRING_MAX + 1:
        raise ValueError(f"a string of {value - 1} bytes is longer than {STRING_MAX}")
    return value, position


def put_varint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_text_length(out: bytearray, value: int) -> None:
    """Append the length plus one of a string. Raise ValueError when the string is too long."""
    if value > STRING_MAX + 1:
        raise ValueError(f"a string of {value - 1} bytes is longer than {STRING_MAX}")
    put_varint(out, value)


def skip_tags(data: Buffer, position: int, count: int, size: int) -> int:
    """Return the position after `count` tagged fields (the count's first byte was read), none of which is known."""
    if count > 127:
        count, position = read_varint(data, position, count)
    if count > TAGS_MAX:
        raise ValueError(f"{count} tagged fields in one structure")
    for _ in range(count):
        tag = data[position]
        position += 1
        if tag > 127:
            tag, position = read_varint(data, position, tag)
        length = data[position]
        position += 1
        if length > 127:
            length, position = read_varint(data, position, length)
        position += length
        if position > size:
            raise ValueError(f"tagged field {tag} runs past the end")
    return position


def length_of(value: Buffer | FileRange) -> int:
    """Return the bytes that `value` stands for."""
    if isinstance(value, bytes | bytearray | memoryview):
        return len(value)
    return value.length


def put_records(parts: list[Sendable], out: bytearray, value: Buffer | FileRange) -> bytearray:
    """Append record batches after what is in `out`; return the buffer to continue with."""
    if isinstance(value, bytes | bytearray | memoryview) and len(value) < COPIED_BYTES:
        out += value
        return out
    parts.append(out)
    parts.append(value)
    return bytearray()


def refuse(title: str, field: str, what: str) -> KafkaError:
    """Return the error of an encoder that was given what its version cannot say."""
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{title} cannot say {what} for {field}")


class RunUnpackers(dict[int, Callable[..., tuple[Any, ...]]]):
    """For one `struct` character: count -> `unpack_from` of that many numbers. Keeps the small counts."""

    def __init__(self, character: str) -> None:
        """`character` is the number's code in `struct`."""
        super().__init__()
        self._character = character

    def __missing__(self, count: int) -> Callable[..., tuple[Any, ...]]:
        """Make the function of a count that is not kept."""
        unpack = Struct(f">{count}{self._character}").unpack_from
        if count <= 64:
            self[count] = unpack
        return unpack


class RunPackers(dict[int, Callable[..., bytes]]):
    """For one `struct` character: count -> `pack` of that many numbers. Keeps the small counts."""

    def __init__(self, character: str) -> None:
        """`character` is the number's code in `struct`."""
        super().__init__()
        self._character = character

    def __missing__(self, count: int) -> Callable[..., bytes]:
        """Make the function of a count that is not kept."""
        pack = Struct(f">{count}{self._character}").pack
        if count <= 64:
            self[count] = pack
        return pack


NUMBERS = "bhiqHId"
"""The `struct` characters of numbers with arrays that are read and written in one call."""
RUN_UNPACKERS = {character: RunUnpackers(character) for character in NUMBERS}
RUN_PACKERS = {character: RunPackers(character) for character in NUMBERS}
