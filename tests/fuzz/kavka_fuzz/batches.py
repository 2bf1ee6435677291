"""Record batches that cost more than they weigh."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache

import cramjam
from crc32c import crc32c

from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.body import seal
from kavka.wire.records.compression import LZ4_HEADER, XERIAL_HEADER, Compression
from kavka.wire.records.header import HEADER_SIZE

_NOW_MS = 1_700_000_000_000
_UNPACKED = 63 << 20
_CODECS = {
    "zstd": Compression.ZSTD,
    "gzip": Compression.GZIP,
    "lz4": Compression.LZ4,
    "snappy": Compression.SNAPPY,
}
CHOICES = (
    "one",
    "empty",
    "many-batches",
    "many-records",
    "many-tiny-records",
    "many-headers",
    "garbage",
    "wrong-crc",
    "torn",
    "magic-1",
    *(f"bomb-{name}" for name in _CODECS),
    *(f"packed-records-{name}" for name in _CODECS),
    *(f"tiny-pieces-{name}" for name in ("snappy", "gzip", "zstd", "lz4")),
)


def records(choice: str, size: int) -> bytes:
    """Return about `size` bytes at most of what a choice means; a single batch may be smaller, or larger."""
    if choice == "empty":
        return b""
    if choice == "garbage":
        return bytes(range(256)) * (size // 256)
    if choice == "torn":
        return records("many-batches", size)[:-1]
    if choice == "magic-1":
        return _old_messages(size)
    if choice.startswith("tiny-pieces-"):
        return _tiny_pieces(choice.rpartition("-")[2], size)
    if choice.startswith(("bomb-", "packed-")):
        return _repeated(_packed(choice), size)
    if choice in ("one", "wrong-crc", "many-batches"):
        batch = bytearray(_batch(1))
        if choice == "wrong-crc":
            batch[17] ^= 1
        return bytes(batch) if choice == "one" else _repeated(bytes(batch), size)
    return _many(choice, size)


def _repeated(batch: bytes, size: int) -> bytes:
    return batch * max(1, size // len(batch))


def _many(choice: str, size: int) -> bytes:
    """Return one batch of many records, or of many headers."""
    if choice == "many-headers":
        builder = BatchBuilder()
        builder.append(b"k", b"", _NOW_MS, [("", b"")] * (size // 2))
        return bytes(builder.build())
    value = b"v" * 93 if choice == "many-records" else b""
    return bytes(_build(lambda count: value, max(1, size // (len(value) + 8))))


def _batch(count: int) -> bytes:
    return bytes(_build(lambda number: b"v", count))


def _build(value: Callable[[int], bytes], count: int) -> bytes:
    return bytes(_filled(value, count).build())


def _filled(value: Callable[[int], bytes], count: int) -> BatchBuilder:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(b"k", value(number), _NOW_MS)
    return builder


@cache
def _packed(choice: str) -> bytes:
    """Return one batch that unpacks to 63 MiB in one record, or to a hundred thousand small records."""
    kind, _, codec = choice.rpartition("-")
    return bytes(_unpacked(kind).build(_CODECS[codec]))


@cache
def _unpacked(kind: str) -> BatchBuilder:
    if kind == "bomb":
        zeros = bytes(_UNPACKED)
        return _filled(lambda number: zeros, 1)
    return _filled(lambda number: b"", 100_000)


def _tiny_pieces(codec: str, size: int) -> bytes:
    """Return one batch whose body is nothing but empty blocks, members or frames; of lz4, blocks of a byte."""
    piece, head, end = {
        "snappy": (b"\0\0\0\1\0", XERIAL_HEADER, b""),
        "gzip": (zlib.compress(b"", wbits=31), b"", b""),
        "zstd": (bytes(cramjam.zstd.compress(b"")), b"", b""),
        "lz4": (b"\1\0\0\x80\0", LZ4_HEADER, bytes(4)),
    }[codec]
    room = size - HEADER_SIZE - len(head) - len(end)
    body = head + piece * max(1, room // len(piece)) + end
    batch = seal(bytearray(HEADER_SIZE) + body, 1, _NOW_MS, _NOW_MS)
    batch[22] = _CODECS[codec]  # the low byte of the attributes
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return bytes(batch)


def _old_messages(size: int) -> bytes:
    """Return messages of magic 1 whose checksums are wrong."""
    message = (
        bytes(8)
        + (22).to_bytes(4, "big")
        + bytes(4)
        + b"\x01\x00"
        + bytes(8)
        + b"\xff" * 4
        + bytes(4)
    )
    return message * (size // len(message))
