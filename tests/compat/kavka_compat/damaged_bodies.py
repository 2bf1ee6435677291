"""Bodies of compressed batches, sound and damaged, in every way that their formats offer: what a broker takes of them.

Each series is a list of bodies that differ in one thing: the bit that is flipped, the place at which it is cut. The
records inside are the same three, or say of themselves what is not so; `batch` puts a body under a header with a true
checksum.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import cramjam
import lz4.frame
import zstandard
from crc32c import crc32c

from kavka.wire.records.xxhash32 import xxhash32

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
_NAMES: Final = {0: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
_BASE_TIMESTAMP: Final = 1_700_000_000_000
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_END: Final = bytes(4)
_SKIPPABLE: Final = struct.pack("<II", 0x184D2A53, 5) + b"abcde"
_XERIAL: Final = b"\x82SNAPPY\x00"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_MIB: Final = 1 << 20


class Body(NamedTuple):
    """The bytes behind a batch's header, and what the header says of them."""

    codec: int
    content: bytes
    count: int = 3  # type: ignore[assignment]


def batch(body: Body) -> bytes:
    """Return a batch of the body, of a producer without id."""
    count = body.count
    fields = (body.codec, count - 1, _BASE_TIMESTAMP, _BASE_TIMESTAMP, -1, -1, -1, count)
    covered = struct.pack(">hiqqqhii", *fields) + body.content
    head = struct.pack(">qiibI", 0, len(covered) + 9, -1, 2, crc32c(covered))
    return head + covered


def record(index: int, value: bytes) -> bytes:
    """Return a record without key and headers, with the timestamp of its batch."""
    content = b"\0\0" + _varint(index) + _varint(-1) + _varint(len(value)) + value + b"\0"
    return _varint(len(content)) + content


def _varint(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


RECORDS: Final = [record(0, b"first"), record(1, b"second " * 4), record(2, b"third")]
PLAIN: Final = b"".join(RECORDS)
LONG_RECORDS: Final = [
    record(index, bytes((97 + index,)) * 30_000 + bytes(range(256))) for index in range(3)
]
LONG: Final = b"".join(LONG_RECORDS)


def _fields(
    index: int = 0,
    value: bytes = b"value",
    *,
    attributes: int = 0,
    timestamp: bytes = b"\0",
    key: int = -1,
    value_length: int | None = None,
    headers: bytes = b"\0",
) -> bytes:
    """Return what follows a record's length, with lengths and counts that need not be true."""
    length = len(value) if value_length is None else value_length
    head = bytes((attributes,)) + timestamp + _varint(index) + _varint(key)
    return head + _varint(length) + value + headers


def _misleading() -> list[bytes]:
    """Return three records each, one or more of which say something that is not so."""
    sound = [_fields(index) for index in range(3)]
    size = len(sound[0])
    lengths = [
        b"".join(_varint(length if index == wrong else size) + sound[index] for index in range(3))
        for wrong in range(3)
        for length in (size - 1, size + 1, 0, -1, 1, 64, 100_000, 0x7FFF_FFFF, -(1 << 31))
    ]
    offsets = [
        b"".join(_varint(len(fields)) + fields for fields in map(_fields, deltas))
        for deltas in (
            (0, 0, 0), (0, 2, 1), (1, 2, 3), (0, 1, 3), (0, 1, 1000), (-1, 0, 1), (0, 1, -1),
        )
    ]  # fmt: skip
    both = [_varint(size + 1) + _fields(2) + _varint(size) * 2 + sound[1] + sound[2]]
    firsts = [
        _fields(attributes=255),
        _fields(key=-2),
        _fields(key=-(1 << 31)),
        _fields(value_length=-1),
        _fields(value_length=-2, value=b""),
        _fields(value_length=1000),
        _fields(value_length=0x7FFF_FFFF),
        _fields(headers=_varint(-1)),
        _fields(headers=_varint(1)),
        _fields(headers=_varint(1) + _varint(1) + b"k" + _varint(1) + b"v"),
        _fields(headers=_varint(1) + _varint(0) + _varint(-1)),
        _fields(headers=_varint(1) + _varint(0) + _varint(-2)),
        _fields(headers=_varint(1) + _varint(-1) + _varint(0)),
        _fields(headers=_varint(1) + _varint(1000) + b"k" + _varint(0)),
        _fields(headers=_varint(2) + _varint(1) + b"k" + _varint(1) + b"v"),
        _fields(headers=_varint(0x7FFF_FFFF)),
        _fields(headers=b"\x80\0"),
        _fields(headers=b"\x80" * 4 + b"\0"),
        _fields(headers=b"\x80" * 5 + b"\0"),
        _fields(headers=b"\xff" * 5),
        _fields(timestamp=b"\x81" + b"\x80" * 8 + b"\0"),
        _fields(timestamp=b"\x80" * 10 + b"\0"),
        b"",
        b"\0",
    ]
    first = [
        b"".join(_varint(len(fields)) + fields for fields in (one, sound[1], sound[2]))
        for one in firsts
    ]
    overlong = [
        number + sound[0] + b"".join(_varint(size) + fields for fields in sound[1:])
        for number in (b"\x96\0", b"\x96\x80\x80\x80\0", b"\x96\x80\x80\x80\x80\0", b"\xff" * 8)
    ]
    large = [LONG[:at] + _varint(length) + LONG[at + 3 :] for at, length in _LONG_LENGTHS]
    return [*lengths, *offsets, *both, *first, *overlong, *large]


_LONG_SIZE: Final = len(LONG_RECORDS[0])
_LONG_LENGTHS: Final = [
    (at, _LONG_SIZE - 3 + more) for at in (0, _LONG_SIZE, 2 * _LONG_SIZE) for more in (-1, 1, -20_000, 100_000)
]  # fmt: skip


def _packed(codec: int, plain: bytes) -> bytes:
    """Return the bytes as a client compresses them."""
    if codec == GZIP:
        return gzip.compress(plain, mtime=0)
    if codec == SNAPPY:
        return xerial(*(plain[at : at + 32768] for at in range(0, len(plain), 32768)))
    if codec == LZ4:
        blocks = [plain[at : at + 65536] for at in range(0, len(plain), 65536)]
        return lz4_frame([lz4_block(block) for block in blocks])
    return _zstd(plain) if codec == ZSTD else plain


def all_series() -> dict[str, list[Body]]:
    """Return every series by name."""
    series: dict[str, list[Body]] = {}
    for codec, whole in SOUND.items():
        name = _NAMES[codec]
        for kind, content in whole.items():
            label = f"{name}: {kind}"
            series[f"{label}, whole"] = [Body(codec, content)]
            if len(content) < _SHORT:
                series[f"{label}, cut"] = [Body(codec, content[:n]) for n in range(len(content))]
                series[f"{label}, a bit flipped"] = [Body(codec, b) for b in _flipped(content)]
            series[f"{label}, behind it"] = [Body(codec, content + more) for more in _BEHIND]
            if codec:
                series[f"{label}, before it"] = [Body(codec, more + content) for more in _BEHIND]
                series[f"{label}, counts"] = [Body(codec, content, n) for n in (1, 2, 4, 1000)]
        if codec:
            series[f"{name}: no body"] = [Body(codec, b"")]
        series[f"{name}: misleading records"] = [
            Body(codec, _packed(codec, plain)) for plain in _misleading()
        ]
    for name, bodies in _special().items():
        series[name] = list(bodies)
    return series


_SHORT: Final = 200

_REWRITTEN: Final = ((0, GZIP), (GZIP, LZ4), (LZ4, 0), (SNAPPY, ZSTD), (ZSTD, SNAPPY))
"""Codecs of batches, and other ones that topics are written in: the broker has to rewrite the batches."""
REWRITTEN: Final = {
    f"{_NAMES[codec]}: misleading records, in a topic of {_NAMES[target]}": (codec, target)
    for codec, target in _REWRITTEN
}


def rewritten_series() -> dict[str, tuple[str, list[Body]]]:
    """Return by name the `compression.type` of a topic, and the bodies that are produced to it."""
    plain = _misleading()
    return {
        name: (
            _NAMES[target] if target else "uncompressed",
            [Body(codec, _packed(codec, each)) for each in plain],
        )
        for name, (codec, target) in REWRITTEN.items()
    }


def _flipped(content: bytes) -> list[bytes]:
    bodies = []
    for place in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            bodies.append(bytes(changed))
    return bodies


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


def _lz4_with_checksums(content: bytes = PLAIN) -> bytes:
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


def _zstd(content: bytes, level: int = 3) -> bytes:
    return bytes(cramjam.zstd.compress(content, level=level))


def _zstd_window(log: int) -> bytes:
    """Return a window descriptor of 2^log bytes."""
    return bytes(((log - 10) << 3,))


SOUND: Final[dict[int, dict[str, bytes]]] = {
    0: {"records": PLAIN},
    GZIP: {
        "a member": gzip.compress(PLAIN, mtime=0),
        "a member that is stored": gzip.compress(PLAIN, 0, mtime=0),
        "long records": gzip.compress(LONG, mtime=0),
    },
    SNAPPY: {
        "raw": bytes(cramjam.snappy.compress_raw(PLAIN)),
        "xerial": xerial(PLAIN),
        "xerial in two blocks": xerial(PLAIN[:20], PLAIN[20:]),
        "long records": xerial(*(LONG[at : at + 32768] for at in range(0, len(LONG), 32768))),
    },
    LZ4: {
        "a frame": lz4_frame([lz4_block(PLAIN)]),
        "a frame in two blocks": lz4_frame([lz4_block(PLAIN[:20]), lz4_stored(PLAIN[20:])]),
        "a frame with every checksum": _lz4_with_checksums(),
        "long records": lz4_frame([lz4_block(LONG[:65536]), lz4_block(LONG[65536:])]),
    },
    ZSTD: {
        "a frame": _zstd(PLAIN),
        "a frame with a window": zstd_frame([zstd_raw(PLAIN)], 0, _zstd_window(20)),
        "a frame in two blocks": zstd_frame(
            [zstd_raw(PLAIN[:20]), zstd_raw(PLAIN[20:])], 0, _zstd_window(20)
        ),
        "a frame with a checksum": zstandard.ZstdCompressor(write_checksum=True).compress(PLAIN),
        "long records": _zstd(LONG),
    },
}
_BEHIND: Final = [
    b"\0",
    bytes(3),
    bytes(4),
    bytes(100),
    b"J",
    b"J" * 100,
    b"\xff" * 100,
    _SKIPPABLE,
    _SKIPPABLE[:-1],
    struct.pack("<II", 0x184D2A50, 0),
    struct.pack("<II", 0x184D2A50, 1 << 30),
    gzip.compress(b"", mtime=0),
    gzip.compress(PLAIN, mtime=0),
    xerial(),
    xerial(PLAIN),
    lz4_frame([]),
    lz4_frame([lz4_block(PLAIN)]),
    _zstd(b""),
    _zstd(PLAIN),
]


def _special() -> dict[str, list[Body]]:
    """Return what belongs to one format only."""
    made: dict[str, list[Body]] = {}
    for codec, special in ((GZIP, _gzip()), (SNAPPY, _snappy()), (LZ4, _lz4()), (ZSTD, _zstds())):
        for name, contents in special.items():
            made[f"{_NAMES[codec]}: {name}"] = [Body(codec, content) for content in contents]
    made["other codecs"] = [Body(number, PLAIN) for number in (5, 6, 7)]
    return made


def _gzip() -> dict[str, list[bytes]]:
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


def _snappy() -> dict[str, list[bytes]]:
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


def _unsigned(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _lz4() -> dict[str, list[bytes]]:
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


def _zstds() -> dict[str, list[bytes]]:
    raw = zstd_raw(PLAIN)
    sizes: Callable[[int], bytes] = lambda size: struct.pack("<I", size)  # noqa: E731
    window = _zstd_window(20)
    long_blocks = [zstd_raw(LONG[at : at + 60_000]) for at in range(0, len(LONG), 60_000)]
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
        "blocks": [
            zstd_frame([zstd_raw(b""), raw], 0, window),
            zstd_frame([raw, zstd_raw(b"")], 0, window),
            zstd_frame([zstd_rle(PLAIN[:1], 1), zstd_raw(PLAIN[1:])], 0, window),
            zstd_frame([zstd_rle(b"a", 0), raw], 0, window),
            zstd_frame([zstd_rle(b"", 1, kind=3), raw], 0, window),
            zstd_frame([zstd_rle(b"", 0, kind=2), raw], 0, window),
            zstd_frame(long_blocks, 0, window),
            zstd_frame([zstd_raw(LONG)], 0, window),
            zstd_frame([zstd_raw(LONG)], 0, _zstd_window(10)),
            zstd_frame([raw], 0, _zstd_window(10)),
            zstd_frame(long_blocks, 0, _zstd_window(10)),
            zstd_frame([], 0, window),
        ],
        "the last block is not marked": [_unmarked(zstd_frame([raw], 0, window))],
        "a block is the last, and another follows": [
            zstd_frame([bytes((raw[0] | 1,)) + raw[1:], raw], 0, window)
        ],
        "frames end to end": [
            _zstd(PLAIN[:20]) + _zstd(PLAIN[20:]),
            _zstd(b"") + _zstd(PLAIN),
            _zstd(PLAIN) + _zstd(b""),
            _SKIPPABLE + _zstd(PLAIN),
            _zstd(PLAIN[:20]) + _SKIPPABLE + _zstd(PLAIN[20:]),
            _SKIPPABLE,
            _zstd(b""),
        ],
        "a frame and one that is cut": [
            _zstd(PLAIN) + frame[:length]
            for frame in (_zstd(PLAIN), zstd_frame([raw, raw], 4, window, bytes(4)))
            for length in range(1, len(frame))
        ],
        "a long frame and one that is cut": [
            zstd_frame([zstd_raw(PLAIN), *[zstd_raw(b"")] * 60_000], 0, window) + _zstd(PLAIN)[:9]
        ],
        "a checksum": [
            zstandard.ZstdCompressor(write_checksum=True).compress(PLAIN)[: -cut or None]
            for cut in range(6)
        ],
        "skippable frames": [
            struct.pack("<II", 0x184D2A50 + number, 1) + b"a" + _zstd(PLAIN) for number in range(16)
        ],
        "older magic numbers": [
            bytes((number,)) + _zstd(PLAIN)[1:] for number in (0x1E, *range(0x21, 0x28))
        ],
        "levels": [_zstd(LONG, level) for level in (-5, 1, 9, 19, 22)],
    }


def _zstd_header(descriptor: int) -> list[int]:
    """Return bytes for what a frame header descriptor announces: a window of 1 MiB, and the true content size."""
    fields: list[int] = [] if descriptor & 0x20 else list(_zstd_window(20))
    fields += [0] * (0, 1, 2, 4)[descriptor & 3]
    code = descriptor >> 6
    length = (1 if descriptor & 0x20 else 0, 2, 4, 8)[code]
    size = len(PLAIN) - (256 if code == 1 else 0)
    return fields + list((size & (1 << 64) - 1).to_bytes(8, "little")[:length])


def _unmarked(frame: bytes) -> bytes:
    at = len(_ZSTD_MAGIC) + 2
    return frame[:at] + bytes((frame[at] & 0xFE,)) + frame[at + 1 :]


TABLE: Final = Path(__file__).resolve().parents[2] / "wire" / "records" / "damaged_bodies.txt"
_INVALID_RECORD: Final = 87


def read_table() -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Return what Apache Kafka answers to each series, and what we do where that differs."""
    theirs: dict[str, list[int]] = {}
    ours: dict[str, list[int]] = {}
    name = ""
    for line in TABLE.read_text().splitlines():
        if line.startswith(" "):
            ours[name] = _codes(line)
        else:
            name, _, codes = line.rpartition(" = ")
            theirs[name] = _codes(codes)
    return theirs, ours


def write_table(theirs: dict[str, list[int]], ours: dict[str, list[int]]) -> None:
    """Write what was answered to each series."""
    lines = []
    for name, codes in theirs.items():
        lines.append(f"{name} = {_runs(codes)}")
        if ours[name] != codes:
            lines.append(f"    {_runs(ours[name])}")
    TABLE.write_text("\n".join(lines) + "\n")


def _codes(text: str) -> list[int]:
    codes = []
    for run in text.split():
        code, _, count = run.partition("*")
        codes += [int(code)] * int(count or 1)
    return codes


def _runs(codes: Sequence[int]) -> str:
    runs = [(code, len(list(group))) for code, group in groupby(codes)]
    return " ".join(f"{code}*{count}" if count > 1 else str(code) for code, count in runs)


def difference_is_known(name: str, theirs: int, ours: int) -> bool:
    """Return whether kavka may answer otherwise: to records that consumers cannot read, or read as others.

    Or to refuse with another code: of two faults in one body the one or the other is found first.
    """
    if not name.endswith(("a bit flipped", "misleading records")) and name not in REWRITTEN:
        return False
    return (theirs, ours) in ((0, _INVALID_RECORD), (_INVALID_RECORD, -1), (-1, _INVALID_RECORD))
