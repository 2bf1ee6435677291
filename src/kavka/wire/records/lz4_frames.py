"""lz4 frames as Kafka's Lz4BlockInputStream reads them: one frame of independent blocks; what follows is ignored.

    magic(4) flags(1) sizes(1) [content size(8)] checksum(1)   [length(4) block [checksum(4)]]...  0(4) [checksum(4)]

The checksums of the descriptor and of blocks are verified; the content's size is not, nor is its checksum, which
must be there. A length with 0 in the lower 31 bits ends the frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

import cramjam

from kavka.io import Buffer, TakeMemory
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBody
from kavka.wire.records.kernel import xxhash32

MAGIC: Final = b"\x04\x22\x4d\x18"

_LARGE: Final = 256 * 1024
_LITTLE: Final = Struct("<I")
_HEAD: Final = Struct("<4sBBBI")
_FIRST_BLOCK: Final = _HEAD.size
_END: Final = bytes(4)
_VERSION, _INDEPENDENT, _BLOCK_CHECKSUMS, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x40, 0x20, 0x10, 8, 4
_RESERVED: Final = 0x03  # the lower one announces a dictionary, which Kafka's reader does not know
_STORED: Final = 0x8000_0000
_LENGTH: Final = 0x7FFF_FFFF

_PLAIN: Final = _VERSION | _INDEPENDENT
_SIZES: Final = {code << 4: 1 << (8 + 2 * code) for code in range(4, 8)}
"""Largest block by the descriptor's second byte; its other bits are reserved."""
_ONE_BLOCK: Final = {
    bytes((_PLAIN, sizes, xxhash32(bytes((_PLAIN, sizes))) >> 8 & 0xFF)): largest
    for sizes, largest in _SIZES.items()
}
"""Usual beginnings of frames behind the magic, and their largest block."""


def decompress_single_block(data: memoryview) -> Buffer | None:
    """Return the body of a frame of one block, as those of batches up to 64 KiB are; None of any other.

    It comes without a copy, and without the generators of `pieces`, which cost as much as the decoder.
    Raise CorruptBody when the block does not decompress.
    """
    if len(data) < _FIRST_BLOCK:
        return None
    largest = _ONE_BLOCK.get(bytes(data[4:7]))
    if largest is None or bytes(data[:4]) != MAGIC:
        return None
    (word,) = _LITTLE.unpack_from(data, 7)
    length = word & _LENGTH
    end = _FIRST_BLOCK + length
    if length == 0 or length > largest or largest > _LARGE or bytes(data[end : end + 4]) != _END:
        return None
    block = data[_FIRST_BLOCK:end]
    if word & _STORED:
        return block
    scratch = bytearray(min(largest, 255 * len(data)))
    return memoryview(scratch)[: _block_into(block, scratch, _FIRST_BLOCK)]


def decompress_plain_blocks(data: memoryview, limit: int, take: TakeMemory) -> memoryview | None:
    """Return the body of a frame such as producers write: independent blocks without checksums, and an end.

    Each block is decompressed to its place in memory of `take`. None for any other frame, and for one that
    may come to more than `limit` bytes: `pieces` tells. Raise CorruptBody when a block does not decompress.
    """
    largest = _ONE_BLOCK.get(bytes(data[4:7]))
    if largest is None or bytes(data[:4]) != MAGIC:
        return None
    blocks = []
    position, room = 7, 0
    while True:
        if len(data) - position < 4:
            return None
        (word,) = _LITTLE.unpack_from(data, position)
        position += 4
        length = word & _LENGTH
        if length == 0:
            break
        if length > largest or position + length > len(data):
            return None
        blocks.append((position, length, word & _STORED))
        room += length if word & _STORED else min(largest, 255 * length)
        position += length
    if room > limit:
        return None
    body = take(room)
    end = 0
    for position, length, is_stored in blocks:
        block = data[position : position + length]
        if is_stored:
            body[end : end + length] = block
            end += length
        else:
            end += _block_into(block, body[end : end + largest], position)
    return body[:end]


def pieces(data: Buffer, *, is_stored: bool = False) -> Iterator[Buffer | int]:
    """Yield the blocks of a frame; in front of one that may exceed 256 KiB, by how much it may. Raise CorruptBody.

    A block is valid until the next is asked for. With `is_stored` a wrong checksum of the descriptor is let pass.
    """
    view = memoryview(data)
    flags, largest, position = _descriptor(view, is_stored=is_stored)
    has_checksums = flags & _BLOCK_CHECKSUMS
    scratch = None
    while True:
        if len(view) - position < 4:
            raise CorruptBody("lz4: the frame is cut", position)
        (word,) = _LITTLE.unpack_from(view, position)
        position += 4
        length = word & _LENGTH
        if length == 0:
            break
        end = position + length
        if length > largest or end > len(view):
            raise CorruptBody("lz4: a block is cut or too long", position)
        block = view[position:end]
        if word & _STORED:
            output: Buffer = block
        else:
            if scratch is None:
                scratch = bytearray(min(largest, 255 * len(view)))
            if len(scratch) > _LARGE:
                yield min(len(scratch), 255 * length)
            output = memoryview(scratch)[: _block_into(block, scratch, position)]
        if has_checksums:
            _check_block(view, block, end)
            end += 4
        yield output
        position = end
    if flags & _CONTENT_CHECKSUM and len(view) - position < 4:
        raise CorruptBody("lz4: the content's checksum is cut", position)


def _descriptor(view: memoryview, *, is_stored: bool) -> tuple[int, int, int]:
    """Return the flags, the largest block and the position of the first one."""
    if len(view) < 7 or bytes(view[:4]) != MAGIC:
        raise CorruptBody("lz4: no frame", 0)
    flags, largest = view[4], _SIZES.get(view[5])
    if flags & ~0x3F != _VERSION:
        raise CorruptBody(f"lz4: version {flags >> 6}", 4)
    if flags & _RESERVED:
        raise CorruptBody("lz4: a dictionary, or a bit that is reserved", 4)
    if not flags & _INDEPENDENT:
        raise CorruptBody("lz4: linked blocks", 4)
    if largest is None:
        raise CorruptBody(f"lz4: block sizes {view[5]:#x}", 5)
    end = 14 if flags & _CONTENT_SIZE else 6
    if end >= len(view):
        raise CorruptBody("lz4: the descriptor is cut", end)
    if view[end] != xxhash32(view[4:end]) >> 8 & 0xFF and not is_stored:
        raise CorruptBody("lz4: a wrong checksum of the descriptor", end)
    return flags, largest, end + 1


def _check_block(view: memoryview, block: memoryview, position: int) -> None:
    if len(view) - position < 4:
        raise CorruptBody("lz4: a block's checksum is cut", position)
    if _LITTLE.unpack_from(view, position)[0] != xxhash32(block):
        raise CorruptBody("lz4: a wrong checksum of a block", position)


def _block_into(block: memoryview, scratch: bytearray | memoryview, position: int) -> int:
    try:
        written: int = cramjam.lz4.decompress_block_into(block, scratch)
    except cramjam.DecompressionError as error:
        raise CorruptBody(f"lz4: {error}", position) from error
    return written


def is_linked(data: Buffer) -> bool:
    """Return whether a frame has linked blocks, which Kafka's clients neither write nor read."""
    return len(data) > 6 and bytes(data[:4]) == MAGIC and data[4] & ~0x1F == _VERSION


def decompress_linked(data: Buffer, limit: int) -> Buffer:
    """Return the body of a frame of linked blocks, in one piece. Raise CorruptBody, or BatchTooLarge beyond `limit`."""
    size = min(limit, max(4096, 8 * len(data)))
    while True:
        output = bytearray(size)
        try:
            written = cramjam.lz4.decompress_into(data, output)
        except (cramjam.DecompressionError, OSError) as error:
            if "whole buffer" not in str(error):
                raise CorruptBody(f"lz4: {error}", 0) from error
            if size >= limit:
                raise BatchTooLarge(f"a compressed body of more than {limit} bytes", 0) from error
            size = min(limit, 4 * size)
        else:
            del output[written:]
            return output
