"""The codecs of record batches, each with the framing that Kafka's clients read and write.

gzip has its usual format (members end to end; what follows the last one is ignored, as Java does), snappy the block
format of xerial's library (raw snappy is read too), lz4 frames of independent blocks of 64 KiB, the only ones the Java
client accepts (linked blocks are read too), zstd its frames.

Nothing here trusts a length: what a body decompresses to is bounded by the caller. `decompress_chunks` keeps only
one chunk in memory; zstd, and lz4 with linked blocks, come as one chunk for want of a streaming decoder.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, Final

import cramjam

from kavka.doors import Buffer
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBatch

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK: Final = 32 * 1024
LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
LZ4_HEADER: Final = LZ4_MAGIC + b"\x60\x40\x82"
"""Version 1, independent blocks of at most 64 KiB, no checksums, no content size; and the descriptor's checksum."""
LZ4_BLOCK: Final = 64 * 1024
CHUNK: Final = 256 * 1024

_BIG: Final = Struct(">I")
_LITTLE: Final = Struct("<I")
_LZ4_HEAD: Final = Struct("<4sBBxI")
_LZ4_FIRST_BLOCK: Final = _LZ4_HEAD.size
_LZ4_END: Final = bytes(4)
_GZIP_WINDOW: Final = 31
_GZIP_SLICE: Final = 16 * 1024
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_GZIP_SHORTEST: Final = 19
_GZIP_HAS_CRC, _GZIP_HAS_EXTRA, _GZIP_HAS_NAME, _GZIP_HAS_COMMENT = 2, 4, 8, 16
_ZERO: Final = re.compile(b"\0")
_LZ4_DEFAULT_LEVEL: Final = 9
_ZSTD_DEFAULT_LEVEL: Final = 3
_LEVELS: Final = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131072, 22)}


class Compression(IntEnum):
    """A codec by its number in the attributes; `of` takes and `kafka_name` gives the name in settings."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def kafka_name(self) -> str:
        """The value of `compression.type`."""
        return self.name.lower()

    @classmethod
    def of(cls, name: str) -> Compression:
        """Return the codec of `compression.type`; a topic may say `uncompressed` for none. Raise ValueError."""
        if name == "uncompressed":
            return cls.NONE
        for codec in cls:
            if codec.kafka_name == name:
                return codec
        raise ValueError(f"unknown compression type {name!r}")

    def check_level(self, level: int) -> int:
        """Return the level if the codec has it (KIP-390). Raise ValueError; gzip takes -1 for its default."""
        bounds = _LEVELS.get(self.kafka_name)
        if bounds is None:
            raise ValueError(f"{self.kafka_name} has no compression levels")
        if not bounds[0] <= level <= bounds[1] and not (self is Compression.GZIP and level == -1):
            raise ValueError(
                f"{self.kafka_name} has levels {bounds[0]} to {bounds[1]}, not {level}"
            )
        return level


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` compressed; without a level, at Kafka's default. Raise ValueError for a level it has not."""
    if level is not None:
        codec.check_level(level)
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return zlib.compress(data, -1 if level is None else level, _GZIP_WINDOW)
        case Compression.SNAPPY:
            return _compress_xerial(data)
        case Compression.LZ4:
            return _compress_lz4(data, level)
        case Compression.ZSTD:
            chosen = _ZSTD_DEFAULT_LEVEL if level is None else level
            return bytes(cramjam.zstd.compress(data, level=chosen))


def decompress(codec: Compression, data: Buffer, limit: int) -> Buffer:
    """Return what `data` decompresses to, at most `limit` bytes; for no codec that is `data` itself.

    Raise CorruptBatch, or BatchTooLarge when there is more; memory stays within about twice `limit` either way.
    """
    match codec:
        case Compression.NONE:
            if len(data) > limit:
                raise BatchTooLarge(f"a body of more than {limit} bytes", 0)
            return data
        case Compression.ZSTD:
            return _decompress_zstd(data, limit)
        case _:
            chunks = decompress_chunks(codec, data, limit)
            first = next(chunks, b"")
            second = next(chunks, None)
            return first if second is None else b"".join((first, second, *chunks))


def decompress_chunks(codec: Compression, data: Buffer, limit: int) -> Iterator[Buffer]:
    """Yield what `data` decompresses to piece by piece, at most `limit` bytes in all; else as `decompress`."""
    match codec:
        case Compression.GZIP:
            pieces = _gzip_pieces(data)
        case Compression.SNAPPY:
            pieces = _snappy_pieces(data, limit)
        case Compression.LZ4:
            pieces = _lz4_pieces(data, limit)
        case Compression.NONE | Compression.ZSTD:
            yield decompress(codec, data, limit)
            return
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > limit:
            raise _too_large(limit)
        yield piece


def decompress_lz4_block(data: memoryview) -> Buffer | None:
    """Return the body of an lz4 frame that is one block, as those of batches up to 64 KiB are; None of any other.

    It comes without a copy, and without the generators of `decompress_chunks`, which cost as much as the decoder.
    Raise CorruptBatch when the block does not decompress.
    """
    if len(data) < _LZ4_FIRST_BLOCK:
        return None
    magic, flags, sizes, word = _LZ4_HEAD.unpack_from(data)
    size_code = sizes >> 4 & 7
    if magic != LZ4_MAGIC or flags & 0xFB != 0x60 or size_code < 4:
        return None
    end = _LZ4_FIRST_BLOCK + (word & 0x7FFF_FFFF)
    maximum = 1 << (8 + 2 * size_code)
    if word == 0 or end - _LZ4_FIRST_BLOCK > maximum or data[end : end + 4] != _LZ4_END:
        return None
    block = data[_LZ4_FIRST_BLOCK:end]
    if word & 0x8000_0000:
        return block
    scratch = bytearray(min(maximum, 255 * len(data)))
    return memoryview(scratch)[: _lz4_block_into(block, scratch, _LZ4_FIRST_BLOCK)]


def _too_large(limit: int) -> BatchTooLarge:
    return BatchTooLarge(f"a compressed body of more than {limit} bytes", 0)


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts: list[Any] = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK):
        block = cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK])
        parts += (_BIG.pack(len(block)), block)
    return b"".join(parts)


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    view = memoryview(data)
    options: dict[str, Any] = {"store_size": False}
    # Kafka's default level is the fast compressor.
    if level is not None and level != _LZ4_DEFAULT_LEVEL:
        options |= {"mode": "high_compression", "compression": level}
    parts: list[Any] = [LZ4_HEADER]
    for start in range(0, len(view), LZ4_BLOCK):
        plain = view[start : start + LZ4_BLOCK]
        block = cramjam.lz4.compress_block(plain, **options)
        if len(block) < len(plain):
            parts += (_LITTLE.pack(len(block)), block)
        else:
            parts += (_LITTLE.pack(len(plain) | 0x8000_0000), plain)
    parts.append(bytes(4))
    return b"".join(parts)


def _gzip_pieces(data: Buffer) -> Iterator[Buffer]:
    """Yield the members of a gzip file, which may be several, in chunks.

    The input is fed in slices, because each call copies what it leaves over.
    """
    view = memoryview(data)
    position = 0
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            fed = view[position : position + _GZIP_SLICE]
            try:
                piece = member.decompress(fed, CHUNK)
            except zlib.error as error:
                raise CorruptBatch(f"gzip: {error}", position) from error
            position += len(fed) - len(member.unconsumed_tail) - len(member.unused_data)
            if piece:
                yield piece
            elif not fed and not member.eof:
                raise CorruptBatch("gzip: the stream is cut", position)
        if not _is_gzip_member(view, position):
            return


def _is_gzip_member(view: memoryview, position: int) -> bool:
    """Tell whether what follows a member is another one.

    As Java's GZIPInputStream has it: what is too short, or does not begin with a whole header, is ignored.
    """
    if len(view) - position < _GZIP_SHORTEST or bytes(view[position : position + 3]) != _GZIP_MAGIC:
        return False
    flags, at = view[position + 3], position + 10
    if flags & _GZIP_HAS_EXTRA:
        at += 2 + int.from_bytes(view[at : at + 2], "little")
    for flag in (_GZIP_HAS_NAME, _GZIP_HAS_COMMENT):
        if flags & flag:
            end = _ZERO.search(view, at)
            if end is None:
                return False
            at = end.end()
    if flags & _GZIP_HAS_CRC:
        stored = int.from_bytes(view[at : at + 2], "little")
        if stored != zlib.crc32(view[position:at]) & 0xFFFF:
            return False
        at += 2
    return at <= len(view)


def _snappy_pieces(data: Buffer, limit: int) -> Iterator[Buffer]:
    """Yield the blocks of xerial's format, or the one block of raw snappy."""
    view = memoryview(data)
    if bytes(view[:8]) != XERIAL_MAGIC:
        yield _snappy_block(view, 0, limit)
        return
    position = len(XERIAL_HEADER)
    while position < len(view):
        # xerial's reader takes streams end to end.
        if bytes(view[position : position + 8]) == XERIAL_MAGIC:
            position += len(XERIAL_HEADER)
            continue
        if len(view) - position < 4:
            raise CorruptBatch("snappy: a block's length is cut", position)
        length = _BIG.unpack_from(view, position)[0]
        position += 4
        if length > len(view) - position:
            raise CorruptBatch("snappy: a block is cut", position)
        yield _snappy_block(view[position : position + length], position, limit)
        position += length


def _snappy_block(block: memoryview, position: int, limit: int) -> Buffer:
    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if length > limit:
            raise _too_large(limit)
        # A byte of snappy gives 64 at most, so a length beyond that is a lie not worth its memory.
        if length > 64 * len(block):
            raise CorruptBatch(f"snappy: {len(block)} bytes claim to hold {length}", position)
        output = bytearray(length)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}", position) from error
    if written != length:
        raise CorruptBatch(f"snappy: {written} of {length} bytes", position)
    return output


def _lz4_pieces(data: Buffer, limit: int) -> Iterator[Buffer]:
    """Yield the blocks of an lz4 frame; a frame of linked blocks in one piece.

    A descriptor's checksum is not looked at: old Java clients wrote a wrong one, and newer ones ignore it.
    """
    view = memoryview(data)
    if len(view) < 7 or bytes(view[:4]) != LZ4_MAGIC:
        raise CorruptBatch("lz4: no frame", 0)
    flags = view[4]
    if flags >> 6 != 1:
        raise CorruptBatch(f"lz4: version {flags >> 6}", 4)
    if flags & 0x03:  # as in Java; with a dictionary the blocks would begin four bytes later
        raise CorruptBatch("lz4: a dictionary, or a bit that is reserved", 4)
    if not flags & 0x20:
        yield _grow_into(cramjam.lz4.decompress_into, view, limit, "lz4")
        return
    size_code = view[5] >> 4 & 7
    if size_code < 4:
        raise CorruptBatch(f"lz4: block size {size_code}", 5)
    yield from _lz4_blocks(view, 15 if flags & 0x08 else 7, 1 << (8 + 2 * size_code), flags)


def _lz4_blocks(view: memoryview, position: int, maximum: int, flags: int) -> Iterator[Buffer]:
    trailer = 4 if flags & 0x10 else 0  # a checksum after each block
    scratch = None
    while True:
        if len(view) - position < 4:
            raise CorruptBatch("lz4: the frame is cut", position)
        word = _LITTLE.unpack_from(view, position)[0]
        position += 4
        if word == 0:
            return
        length = word & 0x7FFF_FFFF
        if length > maximum or length + trailer > len(view) - position:
            raise CorruptBatch("lz4: a block is cut or too long", position)
        block = view[position : position + length]
        if word & 0x8000_0000:
            yield block
        else:
            scratch = scratch or bytearray(min(maximum, 255 * len(view)))
            yield bytes(memoryview(scratch)[: _lz4_block_into(block, scratch, position)])
        position += length + trailer


def _lz4_block_into(block: memoryview, scratch: bytearray, position: int) -> int:
    try:
        written: int = cramjam.lz4.decompress_block_into(block, scratch)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"lz4: {error}", position) from error
    return written


def _decompress_zstd(data: Buffer, limit: int) -> Buffer:
    return _grow_into(cramjam.zstd.decompress_into, data, limit, "zstd")


def _grow_into(decompress_into: Any, data: Buffer, limit: int, name: str) -> Buffer:
    """Decompress into an output that is doubled while it is too small, up to `limit` bytes."""
    size = min(limit, max(4096, 8 * len(data)))
    while True:
        output = bytearray(size)
        try:
            written = decompress_into(data, output)
        except (cramjam.DecompressionError, OSError) as error:
            if "whole buffer" not in str(error):
                raise CorruptBatch(f"{name}: {error}", 0) from error
            if size >= limit:
                raise _too_large(limit) from error
            size = min(limit, 4 * size)
        else:
            del output[written:]
            return output
