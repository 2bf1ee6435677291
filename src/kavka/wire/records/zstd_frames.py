"""zstd as the Java client reads it: frames end to end, and skippable ones, all decompressed into one piece.

    magic(4) descriptor(1) [window(1)] [dictionary] [content size]   [size and kind(3) block]...  [checksum(4)]

A frame that is cut is no error behind a whole one, when the Java client reads the end of both into one buffer; then
the content ends there. The decoder judges the rest: windows above 128 MiB, dictionaries and reserved bits are refused.
Source: RFC 8878.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

import cramjam

from kavka.io import Buffer
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBatch, CorruptBody

_LARGE: Final = 256 * 1024
_SMALLEST_OUTPUT: Final = 4096
_PARTS_AT_ONCE: Final = 16
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = b"\x2a\x4d\x18"
"""Of the magic of skippable frames the bytes behind the first, which is 0x50 to 0x5f."""
_LARGEST_BLOCK: Final = 128 * 1024
_JAVA_BUFFER: Final = 128 * 1024 + 3
_SINGLE_SEGMENT, _CHECKSUM = 0x20, 0x04
_DICTIONARY_BYTES: Final = (0, 1, 2, 4)
_SIZE_BYTES: Final = (0, 2, 4, 8)
_RAW, _REPEATED, _COMPRESSED = 0, 1, 2


def pieces(data: Buffer, limit: int) -> Iterator[Buffer | int]:
    """Yield the content; before it, if it may be more than 256 KiB, how much; 0 between frames and blocks.

    Raise CorruptBody or BatchTooLarge.

    Raise CorruptBatch when there is content of a frame that is cut, which the decoder does not give.
    """
    if not data:
        return
    view = memoryview(data)
    likely = min(limit, max(_SMALLEST_OUTPUT, 8 * len(view)))
    if likely <= _LARGE:
        try:
            output = _decompress(view, likely)
        except CorruptBody:
            outline = yield from _outline(view)
            if len(outline.content) == len(view):
                raise
            output = None
        if output is not None:
            yield output
            return
    content, bound, has_more = yield from _outline(view)
    if min(limit, bound) > _LARGE:
        yield min(limit, bound)
    output = _decompress(content, min(limit, bound))
    if output is not None:
        yield output
        if has_more:
            raise CorruptBatch("zstd: a frame that is cut behind a whole one", len(content))
    elif bound > limit:
        raise BatchTooLarge(f"a compressed body of more than {limit} bytes", 0)
    else:
        raise CorruptBody("zstd: more content than the frames announce", 0)


def decompress_small(data: memoryview) -> Buffer | None:
    """Return the content if it is small, as that of most batches; None says only that `pieces` must check it."""
    size = max(_SMALLEST_OUTPUT, 8 * len(data))
    try:
        return _decompress(data, size) if size <= _LARGE and data else None
    except CorruptBody:
        return None


def _decompress(data: memoryview, size: int) -> bytearray | None:
    """Return the content, None when it is more than `size` bytes."""
    output = bytearray(size)
    try:
        written = cramjam.zstd.decompress_into(data, output)
    except (cramjam.DecompressionError, OSError) as error:
        if "whole buffer" not in str(error):
            raise CorruptBody(f"zstd: {error}", 0) from error
        return None
    del output[written:]
    return output


class _Outline(NamedTuple):
    content: memoryview
    """The frames without one that is cut and ignored."""
    bound: int
    """They decompress to this at most, unless the decoder refuses them."""
    has_more: bool = False
    """True if the split frame has content."""


def _outline(view: memoryview) -> Generator[int, None, _Outline]:
    """Return the outline; yield 0 after each 16 frames, and after each 16 blocks of a frame."""
    position = bound = frames = 0
    while position < len(view):
        frames += 1
        if frames % _PARTS_AT_ONCE == 0:
            yield 0
        end, most = yield from _frame(view, position)
        if end is None:
            buffers = (len(view) - 1) // _JAVA_BUFFER
            if position % _JAVA_BUFFER and position // _JAVA_BUFFER == buffers:
                return _Outline(view[:position], bound, most > 0)
            return _Outline(view, bound + most)
        bound += most
        position = end
    return _Outline(view, bound)


def _frame(view: memoryview, start: int) -> Generator[int, None, tuple[int | None, int]]:
    """Return where a frame ends, None when it is cut, and what it may decompress to.

    What is no frame extends to the end and decompresses to nothing: the decoder says what is wrong with it.
    """
    magic = bytes(view[start : start + 4])
    if magic[0] & 0xF0 == 0x50 and _SKIPPABLE.startswith(magic[1:]):
        skipped = start + 8 + int.from_bytes(view[start + 4 : start + 8], "little")
        is_whole = len(view) - start >= 8 and skipped <= len(view)
        return (skipped if is_whole else None), 0
    if not _MAGIC.startswith(magic):
        return len(view), 0
    if len(view) - start < 5:
        return None, 0
    descriptor = view[start + 4]
    is_single = descriptor & _SINGLE_SEGMENT
    size_bytes = _SIZE_BYTES[descriptor >> 6] or (1 if is_single else 0)
    size_at = start + 5 + (0 if is_single else 1) + _DICTIONARY_BYTES[descriptor & 3]
    position = size_at + size_bytes
    if position > len(view):
        return None, 0
    end, most = yield from _blocks(view, position)
    if size_bytes:
        announced = int.from_bytes(view[size_at:position], "little")
        most = min(most, announced + (256 if size_bytes == 2 else 0))
    if end is not None and descriptor & _CHECKSUM:
        end = end + 4 if end + 4 <= len(view) else None
    return end, most


def _blocks(view: memoryview, position: int) -> Generator[int, None, tuple[int | None, int]]:
    """Return where the last of a frame's blocks ends, None when one is cut, and what they may decompress to."""
    most = blocks = 0
    while position + 3 <= len(view):
        blocks += 1
        if blocks % _PARTS_AT_ONCE == 0:
            yield 0
        word = int.from_bytes(view[position : position + 3], "little")
        kind, size = word >> 1 & 3, word >> 3
        position += 3 + (1 if kind == _REPEATED else size)
        if position > len(view):
            has_begun = kind == _RAW and position - size < len(view)
            return None, most + has_begun
        if kind > _COMPRESSED:
            return len(view), most
        most += _LARGEST_BLOCK if kind == _COMPRESSED else size
        if word & 1:
            return position, most
    return None, most
