"""snappy as xerial's SnappyInputStream reads it: streams of blocks, end to end, or one block of raw snappy.

    xerial   magic(8) version(4) compatible(4)  [length(4) block]...  [magic(8) ... again]...

Fewer than four bytes behind a block are ignored. The versions of the first header are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

import cramjam

from kavka.io import Buffer
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBody

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_LARGE: Final = 256 * 1024
_HEADER: Final = Struct(">8sii")
_LENGTH: Final = Struct(">I")
_HEAD_OF_MAGIC: Final = int.from_bytes(XERIAL_MAGIC[:4], "big")
_OLDEST_VERSION: Final = 1
_MAX_BYTES_PER_BYTE: Final = 22
"""A copy takes three bytes and gives 64 at most."""


def pieces(data: Buffer, limit: int) -> Iterator[Buffer | int]:
    """Yield the blocks, each of at most `limit` bytes; before one above 256 KiB its length. Raise CorruptBody."""
    view = memoryview(data)
    if len(view) < _HEADER.size or bytes(view[:8]) != XERIAL_MAGIC:
        yield from _block(view, 0, limit)
        return
    position = _HEADER.size
    while len(view) - position >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(view, position)
        if length == _HEAD_OF_MAGIC:
            position = _after_header(view, position)
            continue
        position += _LENGTH.size
        if length > len(view) - position:
            raise CorruptBody("snappy: a block is cut", position)
        yield from _block(view[position : position + length], position, limit)
        position += length


def decompress_small(data: memoryview) -> Buffer | None:
    """Return the content of one block, if it is small; None says only that `pieces` must check it."""
    block = data
    if bytes(data[:8]) == XERIAL_MAGIC:
        start = _HEADER.size + _LENGTH.size
        if len(data) < start or _LENGTH.unpack_from(data, _HEADER.size)[0] != len(data) - start:
            return None
        block = data[start:]
    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if length > min(_LARGE, _MAX_BYTES_PER_BYTE * len(block)):
            return None
        output = bytearray(length)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError:
        return None
    return output if written == length else None


def _after_header(view: memoryview, position: int) -> int:
    """Return the position after the header of another stream, after the first four bytes of its magic."""
    if len(view) - position < _HEADER.size:
        raise CorruptBody("snappy: a header is cut", position)
    _, version, _ = _HEADER.unpack_from(view, position)
    if version < _OLDEST_VERSION:
        raise CorruptBody(f"snappy: version {version}", position)
    return position + _HEADER.size


def _block(block: memoryview, position: int, limit: int) -> Iterator[Buffer | int]:
    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if length > _MAX_BYTES_PER_BYTE * len(block):
            raise CorruptBody(f"snappy: {len(block)} bytes claim to hold {length}", position)
        if length > limit:
            raise BatchTooLarge(f"a compressed body of more than {limit} bytes", position)
        if length > _LARGE:
            yield length
        output = bytearray(length)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CorruptBody(f"snappy: {error}", position) from error
    if written != length:
        raise CorruptBody(f"snappy: {written} of {length} bytes", position)
    yield output
