"""The places of compression formats that can be damaged: gzip, snappy, lz4 and zstd, frame by frame."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Final

import cramjam
import lz4.frame
import zstandard

from kavka.wire.records.xxhash32 import xxhash32

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_END: Final = bytes(4)
SKIPPABLE: Final = struct.pack("<II", 0x184D2A53, 5) + b"abcde"
_XERIAL: Final = b"\x82SNAPPY\x00"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"


def record(index: int, value: bytes) -> bytes:
    """Return a record without key and headers, with the timestamp of its batch."""
    content = b"\0\0" + varint(index) + varint(-1) + varint(len(value)) + value + b"\0"
    return varint(len(content)) + content


def _unsigned(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def varint(number: int) -> bytes:
    """Return a signed number as records hold it."""
    return _unsigned((number << 1) ^ (number >> 63))


RECORDS: Final = [record(0, b"first"), record(1, b"second " * 4), record(2, b"third")]
PLAIN: Final = b"".join(RECORDS)
LONG_RECORDS: Final = [
    record(index, bytes((97 + index,)) * 30_000 + bytes(range(256))) for index in range(3)
]


LONG: Final = b"".join(LONG_RECORDS)


def lz4_frame(
    blocks: Sequence[bytes],
    flags: int = 0x60,
    sizes: int = 0x40,
    *,
    content_size: int | None = None,
    dictionary: int | None = None,
    header_checksum: int | None = None,
    block_checksums: Sequence[int] | None = None,
    end: bytes = _LZ4_END,
    content_checksum: bytes = b"",
) -> bytes:
    """Return a frame of blocks that are stored as `lz4_block` and `lz4_stored` made them."""
    descriptor = bytes((flags, sizes))
    if content_size is not None:
        descriptor += struct.pack("<Q", content_size)
    if dictionary is not None:
        descriptor += struct.pack("<I", dictionary)
    if header_checksum is None:
        header_checksum = xxhash32(descriptor) >> 8 & 0xFF
    parts = [_LZ4_MAGIC, descriptor, bytes((header_checksum,))]
    for index, block in enumerate(blocks):
        parts.append(block)
        if block_checksums is not None:
            parts.append(struct.pack("<I", block_checksums[index]))
    return b"".join((*parts, end, content_checksum))


def lz4_block(plain: bytes) -> bytes:
    """Return a compressed block with its length."""
    packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
    return struct.pack("<I", len(packed)) + packed


def lz4_stored(plain: bytes) -> bytes:
    """Return a block that is not compressed."""
    return struct.pack("<I", len(plain) | 0x8000_0000) + plain


def lz4_with_checksums(content: bytes = PLAIN) -> bytes:
    """Return a frame with every checksum that the format has."""
    made: bytes = lz4.frame.compress(
        content, block_linked=False, block_checksum=True, content_checksum=True, store_size=True
    )
    return made


def xerial(*blocks: bytes, head: bytes = _XERIAL + struct.pack(">ii", 1, 1)) -> bytes:
    """Return blocks of raw snappy in xerial's framing."""
    packed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return head + b"".join(struct.pack(">i", len(block)) + block for block in packed)


def zstd_frame(blocks: Sequence[bytes], descriptor: int, header: bytes, tail: bytes = b"") -> bytes:
    """Return a frame; the last of the blocks is marked as such."""
    marked = [*blocks[:-1], bytes((blocks[-1][0] | 1,)) + blocks[-1][1:]] if blocks else []
    return b"".join((_ZSTD_MAGIC, bytes((descriptor,)), header, *marked, tail))


def zstd_raw(plain: bytes) -> bytes:
    """Return a block that is not compressed."""
    return struct.pack("<I", len(plain) << 3)[:3] + plain


def zstd_rle(byte: bytes, count: int, kind: int = 1) -> bytes:
    """Return a block of one byte, repeated."""
    return struct.pack("<I", count << 3 | kind << 1)[:3] + byte


def zstd(content: bytes, level: int = 3) -> bytes:
    """Return a frame as the library makes it."""
    return bytes(cramjam.zstd.compress(content, level=level))


def zstd_window(log: int) -> bytes:
    """Return a window descriptor of 2^log bytes."""
    return bytes(((log - 10) << 3,))


def gzip_bodies() -> dict[str, list[bytes]]:
    """Return members by what is damaged in them."""
    member = gzip.compress(PLAIN, mtime=0)
    first, second = gzip.compress(PLAIN[:20], mtime=0), gzip.compress(PLAIN[20:], mtime=0)
    extra = struct.pack("<H", 3) + b"a\0b"
    named = b"name\0"

    def with_flags(flags: int, more: bytes, *, checksum: bool | None = None) -> bytes:
        head = member[:3] + bytes((flags,)) + member[4:10] + more
        if checksum is not None:
            head += struct.pack("<H", (zlib.crc32(head) + (not checksum)) & 0xFFFF)
        return head + member[10:]

    raw = zlib.compressobj(wbits=-15)
    return {
        "two members": [first + second, second + first, first + b"\0" + second, first + bytes(1)],
        "an empty member first": [gzip.compress(b"", mtime=0) + member],
        "parts of the header": [
            with_flags(1, b""),
            with_flags(4, extra),
            with_flags(8, named),
            with_flags(16, named),
            with_flags(2, b"", checksum=True),
            with_flags(2, b"", checksum=False),
            with_flags(30, extra + named + named, checksum=True),
            with_flags(30, extra + named + named, checksum=False),
            with_flags(32, b""),
            with_flags(0xE0, b""),
        ],
        "other formats of deflate": [
            zlib.compress(PLAIN),
            raw.compress(PLAIN) + raw.flush(),
        ],
        "a member in the middle is wrong": [
            first[:-8] + bytes(4) + first[-4:] + second,
            first[:-4] + bytes(4) + second,
            first + second[:-8] + bytes(4) + second[-4:],
            first + second[:-4] + bytes(4),
            first + second[:3] + b"\x02" + second[4:],
        ],
    }


def snappy_bodies() -> dict[str, list[bytes]]:
    """Return blocks by what is damaged in them."""
    raw = bytes(cramjam.snappy.compress_raw(PLAIN))
    block = struct.pack(">i", len(raw)) + raw
    head = _XERIAL + struct.pack(">ii", 1, 1)
    return {
        "lengths of raw snappy": [
            _unsigned(length) + raw[1:]
            for length in (0, 1, len(PLAIN) - 1, len(PLAIN) + 1, 1 << 20, 1 << 31, (1 << 32) - 1)
        ],
        "versions of xerial": [
            xerial(PLAIN, head=_XERIAL + struct.pack(">ii", version, compatible))
            for version in (-1, 0, 1, 2, 1 << 30)
            for compatible in (-1, 0, 1, 2, 1 << 30)
        ],
        "lengths of blocks": [
            head + struct.pack(">i", length) + raw
            for length in (-1, 0, 1, len(raw) - 1, len(raw) + 1, 1 << 20, 1 << 30, -(1 << 31))
        ],
        "empty blocks": [
            xerial(b"", PLAIN),
            xerial(PLAIN, b""),
            xerial(PLAIN[:20], b"", PLAIN[20:]),
            head + bytes(4) + block,
            head + block + bytes(4),
            head + block + bytes(4) + block,
            xerial(),
        ],
        "streams end to end": [
            xerial(PLAIN[:20]) + xerial(PLAIN[20:]),
            xerial() + xerial(PLAIN),
            xerial(PLAIN) + xerial(),
            xerial(PLAIN) + _XERIAL,
            xerial(PLAIN) + head[:-1],
            xerial(PLAIN[:20]) + xerial(PLAIN[20:], head=_XERIAL + struct.pack(">ii", 0, 0)),
            xerial(PLAIN[:20]) + xerial(PLAIN[20:], head=_XERIAL[:-1] + b"J" + head[8:]),
        ],
        "a raw block behind raw snappy": [raw + raw, raw + b"\0"],
        "a block that grows": [xerial(LONG), bytes(cramjam.snappy.compress_raw(LONG))],
        "a length within a block": [
            head + struct.pack(">i", len(raw) + more) + _unsigned(length) + raw[1:]
            for length, more in ((0, 0), (1 << 20, 2), ((1 << 32) - 1, 4))
        ],
        "the framing format": [bytes(cramjam.snappy.compress(PLAIN))],
    }


def lz4_bodies() -> dict[str, list[bytes]]:
    """Return frames by what is damaged in them."""
    return _lz4_headers() | _lz4_blocks()


def _lz4_headers() -> dict[str, list[bytes]]:
    block = lz4_block(PLAIN)
    true = xxhash32(block[4:])
    whole = xxhash32(PLAIN)
    flags = range(256)
    needs = _lz4_optional
    return {
        "flags": [lz4_frame([block], flag, **needs(flag, true, whole)) for flag in flags],  # type: ignore[arg-type]
        "block sizes": [lz4_frame([block], sizes=sizes) for sizes in range(256)],
        "header checksums": [
            lz4_frame([block], header_checksum=checksum) for checksum in range(0, 256, 5)
        ],
        "header checksums as old clients made them": [
            lz4_frame(
                [block],
                header_checksum=xxhash32(_LZ4_MAGIC + bytes((0x60, 0x40))) >> 8 & 0xFF,
            )
        ],
        "content sizes": [
            lz4_frame([block], 0x68, content_size=size)
            for size in (0, 1, len(PLAIN) - 1, len(PLAIN), len(PLAIN) + 1, 1 << 40, (1 << 64) - 1)
        ],
        "block checksums": [
            lz4_frame([block], 0x70, block_checksums=[checksum])
            for checksum in (true, true + 1, 0, xxhash32(PLAIN))
        ],
        "block checksums of stored blocks": [
            lz4_frame([lz4_stored(PLAIN)], 0x70, block_checksums=[checksum])
            for checksum in (xxhash32(PLAIN), 0)
        ],
        "block checksums missing": [lz4_frame([block], 0x70)],
        "block checksums that are not announced": [lz4_frame([block], block_checksums=[true])],
        "content checksums": [
            lz4_frame([block], 0x64, content_checksum=checksum)
            for checksum in (struct.pack("<I", whole), bytes(4), b"", bytes(3), b"\xff" * 4)
        ],
        "the end": [
            lz4_frame([block], end=end) for end in (b"", bytes(1), bytes(3), b"\0\0\0\x80")
        ],
    }


def _lz4_blocks() -> dict[str, list[bytes]]:
    block = lz4_block(PLAIN)
    return {
        "linked blocks": [
            lz4.frame.compress(PLAIN),
            lz4.frame.compress(LONG),
            bytes(cramjam.lz4.compress(PLAIN)),
            lz4_frame([block], 0x40),
        ],
        "stored blocks": [
            lz4_frame([lz4_stored(b""), block]),
            lz4_frame([block, lz4_stored(b"")]),
            lz4_frame([lz4_stored(PLAIN[:1]), lz4_stored(PLAIN[1:])]),
            lz4_frame([lz4_stored(LONG[:65536]), lz4_stored(LONG[65536:])]),
        ],
        "blocks beyond their size": [
            lz4_frame([lz4_stored(LONG)]),
            lz4_frame([lz4_block(LONG)]),
            lz4_frame([lz4_stored(LONG[:65537]), lz4_stored(LONG[65537:])]),
            lz4_frame([lz4_block(LONG[:65537]), lz4_block(LONG[65537:])]),
            lz4_frame([lz4_stored(LONG)], sizes=0x50),
            lz4_frame([lz4_block(LONG)], sizes=0x70),
        ],
        "lengths of blocks": [
            lz4_frame([struct.pack("<I", length) + block[4:]])
            for length in (1, len(block) - 5, len(block) - 3, 65536, 65537, 0x7FFF_FFFF)
        ],
        "blocks that decompress to nothing": [
            lz4_frame([struct.pack("<I", 1) + b"\0", block]),
            lz4_frame([block, struct.pack("<I", 1) + b"\0"]),
        ],
        "a dictionary": [
            lz4_frame([block], 0x61, dictionary=0),
            lz4_frame([block], 0x61, dictionary=77),
            lz4_frame([block], 0x61),
        ],
        "frames end to end": [
            lz4_frame([lz4_block(PLAIN[:20])]) + lz4_frame([lz4_block(PLAIN[20:])]),
            lz4_frame([]) + lz4_frame([block]),
            lz4_frame([]),
        ],
        "the legacy format": [struct.pack("<I", 0x184C2102) + block],
    }


def _lz4_optional(flags: int, block: int, whole: int) -> dict[str, object]:
    """Return what the flags of a frame announce."""
    return {
        "content_size": len(PLAIN) if flags & 0x08 else None,
        "dictionary": 7 if flags & 0x01 else None,
        "block_checksums": [block] if flags & 0x10 else None,
        "content_checksum": struct.pack("<I", whole) if flags & 0x04 else b"",
    }


def zstd_bodies() -> dict[str, list[bytes]]:
    """Return frames by what is damaged in them."""
    return _zstd_headers() | _zstd_blocks() | _zstd_sequences()


def _zstd_headers() -> dict[str, list[bytes]]:
    raw = zstd_raw(PLAIN)
    sizes: Callable[[int], bytes] = lambda size: struct.pack("<I", size)  # noqa: E731
    window = zstd_window(20)
    descriptor = 0x20 | 0x80
    return {
        "descriptors": [zstd_frame([raw], d, bytes(_zstd_header(d))) for d in range(256)],
        "windows": [
            zstd_frame([raw], 0, bytes((log << 3 | mantissa,)))
            for log in range(32)
            for mantissa in (0, 1, 7)
        ],
        "content sizes": [
            zstd_frame([raw], descriptor, sizes(size))
            for size in (0, 1, len(PLAIN) - 1, len(PLAIN), len(PLAIN) + 1, 1 << 20, (1 << 32) - 1)
        ],
        "content sizes of eight bytes": [
            zstd_frame([raw], 0xE0, struct.pack("<Q", size))
            for size in (len(PLAIN), 1 << 27, (1 << 27) + 1, 1 << 40, (1 << 64) - 1, (1 << 64) - 2)
        ],
        "content sizes with a window": [
            zstd_frame([raw], 0x80, window + sizes(size)) for size in (len(PLAIN), 1, 1 << 30)
        ],
        "dictionaries": [
            zstd_frame([raw], flag, window + bytes((number, *bytes(length - 1))))
            for flag, length in ((1, 1), (2, 2), (3, 4))
            for number in (0, 1)
        ],
        "reserved bits": [zstd_frame([raw], bits, window) for bits in (0x08, 0x10, 0x18)],
    }


def _zstd_blocks() -> dict[str, list[bytes]]:
    raw, window = zstd_raw(PLAIN), zstd_window(20)
    long_blocks = [zstd_raw(LONG[at : at + 60_000]) for at in range(0, len(LONG), 60_000)]
    return {
        "blocks": [
            zstd_frame([zstd_raw(b""), raw], 0, window),
            zstd_frame([raw, zstd_raw(b"")], 0, window),
            zstd_frame([zstd_rle(PLAIN[:1], 1), zstd_raw(PLAIN[1:])], 0, window),
            zstd_frame([zstd_rle(b"a", 0), raw], 0, window),
            zstd_frame([zstd_rle(b"", 1, kind=3), raw], 0, window),
            zstd_frame([zstd_rle(b"", 0, kind=2), raw], 0, window),
            zstd_frame(long_blocks, 0, window),
            zstd_frame([zstd_raw(LONG)], 0, window),
            zstd_frame([zstd_raw(LONG)], 0, zstd_window(10)),
            zstd_frame([raw], 0, zstd_window(10)),
            zstd_frame(long_blocks, 0, zstd_window(10)),
            zstd_frame([], 0, window),
        ],
        "the last block is not marked": [_unmarked(zstd_frame([raw], 0, window))],
        "a block is the last, and another follows": [
            zstd_frame([bytes((raw[0] | 1,)) + raw[1:], raw], 0, window)
        ],
    }


def _zstd_sequences() -> dict[str, list[bytes]]:
    raw, window = zstd_raw(PLAIN), zstd_window(20)
    return {
        "frames end to end": [
            zstd(PLAIN[:20]) + zstd(PLAIN[20:]),
            zstd(b"") + zstd(PLAIN),
            zstd(PLAIN) + zstd(b""),
            SKIPPABLE + zstd(PLAIN),
            zstd(PLAIN[:20]) + SKIPPABLE + zstd(PLAIN[20:]),
            SKIPPABLE,
            zstd(b""),
        ],
        "a frame and one that is cut": [
            zstd(PLAIN) + frame[:length]
            for frame in (zstd(PLAIN), zstd_frame([raw, raw], 4, window, bytes(4)))
            for length in range(1, len(frame))
        ],
        "a long frame and one that is cut": [
            zstd_frame([zstd_raw(PLAIN), *[zstd_raw(b"")] * 60_000], 0, window) + zstd(PLAIN)[:9]
        ],
        "a checksum": [
            zstandard.ZstdCompressor(write_checksum=True).compress(PLAIN)[: -cut or None]
            for cut in range(6)
        ],
        "skippable frames": [
            struct.pack("<II", 0x184D2A50 + number, 1) + b"a" + zstd(PLAIN) for number in range(16)
        ],
        "older magic numbers": [
            bytes((number,)) + zstd(PLAIN)[1:] for number in (0x1E, *range(0x21, 0x28))
        ],
        "levels": [zstd(LONG, level) for level in (-5, 1, 9, 19, 22)],
    }


def _zstd_header(descriptor: int) -> list[int]:
    """Return bytes for what a frame header descriptor announces: a window of 1 MiB, and the true content size."""
    fields: list[int] = [] if descriptor & 0x20 else list(zstd_window(20))
    fields += [0] * (0, 1, 2, 4)[descriptor & 3]
    code = descriptor >> 6
    length = (1 if descriptor & 0x20 else 0, 2, 4, 8)[code]
    size = len(PLAIN) - (256 if code == 1 else 0)
    return fields + list((size & (1 << 64) - 1).to_bytes(8, "little")[:length])


def _unmarked(frame: bytes) -> bytes:
    at = len(_ZSTD_MAGIC) + 2
    return frame[:at] + bytes((frame[at] & 0xFE,)) + frame[at + 1 :]
