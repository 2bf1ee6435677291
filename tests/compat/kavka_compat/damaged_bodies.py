"""Bodies of compressed batches, sound and damaged, in every way that their formats offer: what a broker takes of them.

Each series is a list of bodies that differ in one thing: the bit that is flipped, the place at which it is cut. The
records inside are the same three, or say of themselves what is not so; `batch` puts a body under a header with a true
checksum.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import cramjam
import zstandard
from crc32c import crc32c

from kavka_compat.damaged_frames import (
    LONG,
    LONG_RECORDS,
    PLAIN,
    SKIPPABLE,
    gzip_bodies,
    lz4_block,
    lz4_bodies,
    lz4_frame,
    lz4_stored,
    lz4_with_checksums,
    snappy_bodies,
    varint,
    xerial,
    zstd,
    zstd_bodies,
    zstd_frame,
    zstd_raw,
    zstd_window,
)

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
_NAMES: Final = {0: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
_BASE_TIMESTAMP: Final = 1_700_000_000_000
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
    head = bytes((attributes,)) + timestamp + varint(index) + varint(key)
    return head + varint(length) + value + headers


def _misleading() -> list[bytes]:
    """Return three records each, one or more of which say something that is not so."""
    sound = [_fields(index) for index in range(3)]
    size = len(sound[0])
    lengths = [
        b"".join(varint(length if index == wrong else size) + sound[index] for index in range(3))
        for wrong in range(3)
        for length in (size - 1, size + 1, 0, -1, 1, 64, 100_000, 0x7FFF_FFFF, -(1 << 31))
    ]
    offsets = [
        b"".join(varint(len(fields)) + fields for fields in map(_fields, deltas))
        for deltas in (
            (0, 0, 0), (0, 2, 1), (1, 2, 3), (0, 1, 3), (0, 1, 1000), (-1, 0, 1), (0, 1, -1),
        )
    ]  # fmt: skip
    both = [varint(size + 1) + _fields(2) + varint(size) * 2 + sound[1] + sound[2]]
    firsts = [
        _fields(attributes=255),
        _fields(key=-2),
        _fields(key=-(1 << 31)),
        _fields(value_length=-1),
        _fields(value_length=-2, value=b""),
        _fields(value_length=1000),
        _fields(value_length=0x7FFF_FFFF),
        _fields(headers=varint(-1)),
        _fields(headers=varint(1)),
        _fields(headers=varint(1) + varint(1) + b"k" + varint(1) + b"v"),
        _fields(headers=varint(1) + varint(0) + varint(-1)),
        _fields(headers=varint(1) + varint(0) + varint(-2)),
        _fields(headers=varint(1) + varint(-1) + varint(0)),
        _fields(headers=varint(1) + varint(1000) + b"k" + varint(0)),
        _fields(headers=varint(2) + varint(1) + b"k" + varint(1) + b"v"),
        _fields(headers=varint(0x7FFF_FFFF)),
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
        b"".join(varint(len(fields)) + fields for fields in (one, sound[1], sound[2]))
        for one in firsts
    ]
    overlong = [
        number + sound[0] + b"".join(varint(size) + fields for fields in sound[1:])
        for number in (b"\x96\0", b"\x96\x80\x80\x80\0", b"\x96\x80\x80\x80\x80\0", b"\xff" * 8)
    ]
    large = [LONG[:at] + varint(length) + LONG[at + 3 :] for at, length in _LONG_LENGTHS]
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
    return zstd(plain) if codec == ZSTD else plain


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
        "a frame with every checksum": lz4_with_checksums(),
        "long records": lz4_frame([lz4_block(LONG[:65536]), lz4_block(LONG[65536:])]),
    },
    ZSTD: {
        "a frame": zstd(PLAIN),
        "a frame with a window": zstd_frame([zstd_raw(PLAIN)], 0, zstd_window(20)),
        "a frame in two blocks": zstd_frame(
            [zstd_raw(PLAIN[:20]), zstd_raw(PLAIN[20:])], 0, zstd_window(20)
        ),
        "a frame with a checksum": zstandard.ZstdCompressor(write_checksum=True).compress(PLAIN),
        "long records": zstd(LONG),
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
    SKIPPABLE,
    SKIPPABLE[:-1],
    struct.pack("<II", 0x184D2A50, 0),
    struct.pack("<II", 0x184D2A50, 1 << 30),
    gzip.compress(b"", mtime=0),
    gzip.compress(PLAIN, mtime=0),
    xerial(),
    xerial(PLAIN),
    lz4_frame([]),
    lz4_frame([lz4_block(PLAIN)]),
    zstd(b""),
    zstd(PLAIN),
]


def _special() -> dict[str, list[Body]]:
    """Return what belongs to one format only."""
    made: dict[str, list[Body]] = {}
    for codec, special in (
        (GZIP, gzip_bodies()),
        (SNAPPY, snappy_bodies()),
        (LZ4, lz4_bodies()),
        (ZSTD, zstd_bodies()),
    ):
        for name, contents in special.items():
            made[f"{_NAMES[codec]}: {name}"] = [Body(codec, content) for content in contents]
    made["other codecs"] = [Body(number, PLAIN) for number in (5, 6, 7)]
    return made


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
