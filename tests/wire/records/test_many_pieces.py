"""Compressed bodies of many tiny parts: they are checked in steps, and their number is bounded."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import cramjam
import pytest
from crc32c import crc32c

from kavka.errors import ErrorCode
from kavka.wire.records import body_check
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.batch_check import Allowance, Checked, Refusal
from kavka.wire.records.body import seal
from kavka.wire.records.compression import LZ4_HEADER, XERIAL_HEADER, Compression
from kavka.wire.records.header import HEADER_SIZE
from kavka.wire.records.validate import BatchRules, begin_check

NOW = 1_700_000_000_000
FIRST_BYTES, ALL_BYTES = 5 << 19, 256 << 20
RULES = BatchRules(max_message_bytes=4 << 20)
MAX_STEPS = 700
"""About 2 ms."""


def records() -> bytes:
    builder = BatchBuilder()
    builder.append(b"k", bytes(range(200)), NOW)
    return bytes(builder.build(Compression.NONE)[HEADER_SIZE:])


def _gzip(data: bytes) -> bytes:
    return zlib.compress(data, wbits=31)


def snappy(blocks: int) -> bytes:
    content = bytes(cramjam.snappy.compress_raw(records()))
    return XERIAL_HEADER + b"\0\0\0\1\0" * blocks + len(content).to_bytes(4, "big") + content


def lz4(blocks: int) -> bytes:
    """Return a frame of stored blocks that hold nothing but the last: a byte each would be records."""
    content = records()
    empty = bytes(cramjam.lz4.compress_block(b"", store_size=False))
    blocks_of_none = (len(empty).to_bytes(4, "little") + empty) * blocks
    stored = (len(content) | 0x8000_0000).to_bytes(4, "little") + content
    return LZ4_HEADER + blocks_of_none + stored + bytes(4)


def gzip(members: int) -> bytes:
    return _gzip(b"") * members + _gzip(records())


def zstd_frames(frames: int) -> bytes:
    return bytes(cramjam.zstd.compress(b"")) * frames + bytes(cramjam.zstd.compress(records()))


def zstd_blocks(blocks: int) -> bytes:
    """Return one frame of raw blocks: empty ones, and a last one with the records."""
    content = records()
    last = (len(content) << 3 | 1).to_bytes(3, "little") + content
    return b"\x28\xb5\x2f\xfd\x00\x58" + bytes(3) * blocks + last


BODIES = {
    "snappy": (Compression.SNAPPY, snappy),
    "lz4": (Compression.LZ4, lz4),
    "gzip": (Compression.GZIP, gzip),
    "zstd frames": (Compression.ZSTD, zstd_frames),
    "zstd blocks": (Compression.ZSTD, zstd_blocks),
}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list whose only item is how many pieces were asked for."""
    count = [0]
    original = body_check.decompress_pieces  # type: ignore[attr-defined]

    def counted(*arguments: object) -> Iterator[object]:
        for piece in original(*arguments):  # type: ignore[arg-type]
            count[0] += 1
            yield piece

    monkeypatch.setattr(body_check, "decompress_pieces", counted)
    return count


def batch(name: str, parts: int) -> bytearray:
    """Return a batch of one record whose compressed body is given."""
    codec, body = BODIES[name]
    sealed = seal(bytearray(HEADER_SIZE) + body(parts), 1, NOW, NOW)
    sealed[22] = codec  # the low byte of the attributes
    sealed[17:21] = crc32c(memoryview(sealed)[21:]).to_bytes(4, "big")
    return sealed


@pytest.mark.parametrize("name", BODIES)
def test_a_body_of_many_parts_leaves_the_loop_soon(name: str, steps: list[int]) -> None:
    parts = 100_000 if name.startswith("zstd") else 40_000
    check = begin_check(batch(name, parts), RULES, NOW, 11, Allowance(FIRST_BYTES, ALL_BYTES))
    assert not check.advance()
    assert steps[0] < MAX_STEPS
    assert isinstance(check.finish(), Checked)


@pytest.mark.parametrize("name", ["snappy", "lz4", "gzip"])
def test_a_body_of_too_many_parts_is_refused(name: str) -> None:
    check = begin_check(batch(name, 70_000), RULES, NOW, 11, Allowance(FIRST_BYTES, ALL_BYTES))
    found = check.finish()
    assert isinstance(found, Refusal)
    assert found.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "too many pieces" in found.message


@pytest.mark.parametrize("name", BODIES)
def test_a_body_of_some_parts_is_checked_at_once(name: str) -> None:
    check = begin_check(batch(name, 100), RULES, NOW, 11, Allowance(FIRST_BYTES, ALL_BYTES))
    assert check.advance()
    assert isinstance(check.result, Checked)
