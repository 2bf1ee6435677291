"""The codecs of record batches, each with the framing that Kafka's clients read and write.

Written are gzip in its usual format, snappy in the blocks of xerial's library, lz4 frames of independent blocks of
64 KiB, the only ones that the Java client accepts, and zstd frames. Read is what the Java client reads:
`gzip_members`, `snappy_blocks`, `lz4_frames` and `zstd_frames` say what that is, byte by byte.

Nothing here trusts a length: what a body decompresses to is bounded by the caller. `decompress_pieces` keeps only
one piece in memory; zstd comes in one piece, for want of a streaming decoder.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, Final

import cramjam

from kavka.io import Buffer, TakeMemory
from kavka.wire.records import gzip_members, lz4_frames, snappy_blocks, zstd_frames
from kavka.wire.records.corrupt import BatchTooLarge
from kavka.wire.records.snappy_blocks import XERIAL_MAGIC

XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK: Final = 32 * 1024
LZ4_HEADER: Final = lz4_frames.MAGIC + b"\x60\x40\x82"
"""Version 1, independent blocks of at most 64 KiB, no checksums, no content size; and the descriptor's checksum."""
LZ4_BLOCK: Final = 64 * 1024
LARGE_PIECE: Final = 256 * 1024

_BIG: Final = Struct(">I")
_LITTLE: Final = Struct("<I")
_GZIP_WINDOW: Final = 31
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


def decompress(
    codec: Compression, data: Buffer, limit: int, take: TakeMemory | None = None
) -> Buffer:
    """Return what `data` decompresses to, at most `limit` bytes; for no codec that is `data` itself.

    `take` gives memory for it, where the codec has a use for that.

    For readers of what a broker has taken: lz4 frames of linked blocks, and those with a wrong checksum of their
    descriptor, are read too, since brokers of earlier versions took them. Raise CorruptBody, or BatchTooLarge when
    there is more; memory stays within about twice `limit` either way.
    """
    if codec is Compression.NONE:
        if len(data) > limit:
            raise BatchTooLarge(f"a body of more than {limit} bytes", 0)
        return data
    if codec is Compression.LZ4 and take is not None:
        whole = lz4_frames.decompress_plain_blocks(memoryview(data), limit, take)
        if whole is not None:
            return whole
    pieces = decompress_pieces(codec, data, limit, is_stored=True)
    if codec is not Compression.LZ4:
        found = [piece for piece in pieces if not isinstance(piece, int)]
        return found[0] if len(found) == 1 else b"".join(found)
    if lz4_frames.is_linked(data):
        return lz4_frames.decompress_linked(data, limit)
    body = bytearray()
    for piece in pieces:
        if not isinstance(piece, int):
            body += piece
    return body


def decompress_small(codec: Compression, data: memoryview) -> Buffer | None:
    """Return the body of a batch such as most are: in one block, frame or member, and of at most 256 KiB.

    None says only that `decompress_pieces` must check it, which costs as much again in generators. Raise CorruptBody.
    """
    match codec:
        case Compression.LZ4:
            return lz4_frames.decompress_single_block(data)
        case Compression.ZSTD:
            return zstd_frames.decompress_small(data)
        case Compression.SNAPPY:
            return snappy_blocks.decompress_small(data)
        case _:
            return gzip_members.decompress_small(data)


def decompress_pieces(
    codec: Compression, data: Buffer, limit: int, *, is_stored: bool = False
) -> Iterator[Buffer | int]:
    """Yield what a compressed `data` decompresses to piece by piece, at most `limit` bytes in all.

    Before a piece that may come to more than LARGE_PIECE bytes that number is yielded, so that the caller may continue
    elsewhere; 0 is yielded while the structure of a body is read. A piece is valid until the next one is asked for.
    Raise CorruptBody for what the Java client does not read, or BatchTooLarge; `is_stored` as in `decompress`.
    """
    pieces: Iterator[Buffer | int]
    match codec:
        case Compression.GZIP:
            pieces = gzip_members.pieces(data)
        case Compression.SNAPPY:
            pieces = snappy_blocks.pieces(data, limit)
        case Compression.LZ4:
            pieces = lz4_frames.pieces(data, is_stored=is_stored)
        case Compression.ZSTD:
            pieces = zstd_frames.pieces(data, limit)
        case _:
            raise ValueError("a body without codec has no pieces")
    left = limit
    for piece in pieces:
        if not isinstance(piece, int):
            left -= len(piece)
            if left < 0:
                raise BatchTooLarge(f"a compressed body of more than {limit} bytes", 0)
        yield piece


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
    # One output for all blocks: a new one for each costs its pages, as the allocator gives them back each time.
    largest = min(len(view), LZ4_BLOCK)
    output = memoryview(bytearray(largest + largest // 255 + 16))
    for start in range(0, len(view), LZ4_BLOCK):
        plain = view[start : start + LZ4_BLOCK]
        length = cramjam.lz4.compress_block_into(plain, output, **options)
        if length < len(plain):
            parts += (_LITTLE.pack(length), bytes(output[:length]))
        else:
            parts += (_LITTLE.pack(len(plain) | 0x8000_0000), plain)
    parts.append(bytes(4))
    return b"".join(parts)
