"""gzip as Java's GZIPInputStream reads it: members end to end, each held to its checksum and its length.

What follows the last member is ignored, unless it is long enough and begins with a whole header. Flags that are
reserved are ignored, too. Source: RFC 1952, and the behaviour of Java 17.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

from kavka.io import Buffer
from kavka.wire.records.corrupt import CorruptBody

PIECE: Final = 256 * 1024

_RAW_DEFLATE, _WITH_HEADER = -15, 31
_SLICE: Final = 16 * 1024
_MAGIC: Final = b"\x1f\x8b\x08"
_HEADER_SIZE: Final = 10
_SHORTEST: Final = 19
"""As few bytes behind a member are not checked."""
_HAS_CRC, _HAS_EXTRA, _HAS_NAME, _HAS_COMMENT = 2, 4, 8, 16
_ZERO: Final = re.compile(b"\0")
_TRAILER: Final = Struct("<II")


def pieces(data: Buffer) -> Iterator[Buffer]:
    """Yield the members in pieces of at most PIECE bytes, an empty one as an empty piece. Raise CorruptBody.

    The input is fed in slices, because each call copies what it leaves over.
    """
    view = memoryview(data)
    position = _after_header(view, 0)
    while True:
        inflater = zlib.decompressobj(_RAW_DEFLATE)
        crc = size = 0
        while not inflater.eof:
            fed = view[position : position + _SLICE]
            try:
                piece = inflater.decompress(fed, PIECE)
            except zlib.error as error:
                raise CorruptBody(f"gzip: {error}", position) from error
            # At the end of a member the unconsumed tail may repeat what is unused.
            left = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            position += len(fed) - len(left)
            if piece:
                crc = zlib.crc32(piece, crc)
                size += len(piece)
                yield piece
            elif not fed and not inflater.eof:
                raise CorruptBody("gzip: the stream is cut", position)
        position = _after_trailer(view, position, crc, size)
        if not size:
            yield b""
        if len(view) - position < _SHORTEST:
            return
        try:
            position = _after_header(view, position)
        except CorruptBody:
            return


def decompress_small(data: memoryview) -> Buffer | None:
    """Return the content of one member, if it is small; None says only that `pieces` must check it."""
    if len(data) > PIECE or int.from_bytes(data[-4:], "little") >= PIECE:
        return None
    inflater = zlib.decompressobj(_WITH_HEADER)
    try:
        content = inflater.decompress(data, PIECE)
    except zlib.error:
        return None
    return content if inflater.eof and not inflater.unused_data else None


def _after_trailer(view: memoryview, position: int, crc: int, size: int) -> int:
    end = position + _TRAILER.size
    if end > len(view):
        raise CorruptBody("gzip: the trailer is cut", position)
    if _TRAILER.unpack_from(view, position) != (crc, size & 0xFFFF_FFFF):
        raise CorruptBody("gzip: a wrong checksum or length of a member", position)
    return end


def _after_header(view: memoryview, position: int) -> int:
    """Return the position after the header of a member. Raise CorruptBody when there is none."""
    if bytes(view[position : position + 3]) != _MAGIC:
        raise CorruptBody("gzip: no member", position)
    at = position + _HEADER_SIZE
    if at > len(view):
        raise CorruptBody("gzip: a header is cut", position)
    flags = view[position + 3]
    if flags & _HAS_EXTRA:
        at += 2 + int.from_bytes(view[at : at + 2], "little")
    for flag in (_HAS_NAME, _HAS_COMMENT):
        if flags & flag:
            end = _ZERO.search(view, at)
            if end is None:
                raise CorruptBody("gzip: a header is cut", position)
            at = end.end()
    if flags & _HAS_CRC:
        stored = int.from_bytes(view[at : at + 2], "little")
        if stored != zlib.crc32(view[position:at]) & 0xFFFF:
            raise CorruptBody("gzip: a wrong checksum of a header", position)
        at += 2
    if at > len(view):
        raise CorruptBody("gzip: a header is cut", position)
    return at
