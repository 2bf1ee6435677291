"""Each codec, there and back, in pieces and with damage."""

import contextlib
import gzip
import os
import struct
import zlib
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.wire.records.compression import (
    Compression,
    compress,
    decompress,
    decompress_pieces,
)
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBatch
from kavka.wire.records.lz4_frames import decompress_plain_blocks, decompress_single_block
from support.record_samples import CODECS, PAYLOADS, REAL


def pieces_of(codec, data, limit):
    """Copy the pieces: one is valid until the next."""
    for piece in decompress_pieces(codec, data, limit):
        if not isinstance(piece, int):
            yield bytes(piece)


HELLO = gzip.compress(b"hello", mtime=0)
WORLD = gzip.compress(b"world", mtime=0)
BEHIND_A_MEMBER = {
    "a zero": (b"\0", b"hello"),
    "a hundred zeros": (bytes(100), b"hello"),
    "no header": (b"J" * 30, b"hello"),
    "half a magic number": (b"\x1f\x8b", b"hello"),
    "a short header": (b"\x1f\x8b\x08" + bytes(5), b"hello"),
    "another method": (b"\x1f\x8b\x07" + bytes(40), b"hello"),
    "a name without end": (b"\x1f\x8b\x08\x08" + b"x" * 40, b"hello"),
    "a wrong checksum of the header": (WORLD[:3] + b"\x02" + WORLD[4:], b"hello"),
    "what is shorter than a member": (WORLD[:18], b"hello"),
    "an empty member": (gzip.compress(b"", mtime=0) + b"JJ", b"hello"),
    "a member after a gap": (b"J" * 5 + WORLD, b"hello"),
    "a member": (WORLD, b"helloworld"),
    "a member and no header": (WORLD + b"J" * 30, b"helloworld"),
    "a member with a name": (
        WORLD[:3] + b"\x08" + WORLD[4:10] + b"name\0" + WORLD[10:],
        b"helloworld",
    ),
    "a header and nonsense": (b"\x1f\x8b\x08" + bytes(40), None),
    "a member that is cut": (WORLD[:-1], None),
    "a member with a wrong length": (WORLD[:-1] + b"\1", None),
}


@pytest.mark.parametrize(("rest", "read"), BEHIND_A_MEMBER.values(), ids=BEHIND_A_MEMBER)
def test_what_stands_behind_a_gzip_member_is_read_or_ignored_as_java_does(rest, read):
    """The outcomes are those of java.util.zip.GZIPInputStream 17; None is an exception."""
    if read is None:
        with pytest.raises(CorruptBatch, match="gzip"):
            decompress(Compression.GZIP, HELLO + rest, 100)
    else:
        assert decompress(Compression.GZIP, HELLO + rest, 100) == read


def test_a_header_of_a_gzip_member_may_have_all_parts() -> None:
    head = WORLD[:3] + bytes([2 | 4 | 8 | 16]) + WORLD[4:10]
    head += struct.pack("<H", 3) + b"a\0b" + b"name\0" + b"comment\0"
    head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    assert decompress(Compression.GZIP, HELLO + head + WORLD[10:], 100) == b"helloworld"


@given(st.sampled_from(CODECS), st.binary(max_size=5000))
def test_what_is_compressed_comes_back(codec, data):
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    assert decompress(codec, memoryview(bytearray(packed)), len(data) + 100) == data


@pytest.mark.parametrize("codec", CODECS)
def test_a_body_beyond_the_bound_is_refused(codec: Compression) -> None:
    packed = compress(codec, bytes(200_000))
    with pytest.raises(BatchTooLarge):
        decompress(codec, packed, 199_999)
    if codec is not Compression.NONE:
        with pytest.raises(BatchTooLarge):
            list(pieces_of(codec, packed, 199_999))


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_a_bomb_is_taken_apart_in_small_pieces(codec: Compression) -> None:
    packed = compress(codec, bytes(50_000_000))
    pieces = pieces_of(codec, packed, 20_000_000)
    sizes: list[Any] = []
    with pytest.raises(BatchTooLarge):
        sizes.extend(len(piece) for piece in pieces)
    assert max(sizes) <= 256 * 1024


def test_snappy_is_framed_as_the_java_client_does_it() -> None:
    frame = compress(Compression.SNAPPY, bytes(40_000))
    assert frame[:16] == b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    first = struct.unpack_from(">i", frame, 16)[0]
    assert cramjam.snappy.decompress_raw_len(frame[20 : 20 + first]) == 32768


def test_a_snappy_length_that_lies_costs_no_memory() -> None:
    lie = b"\xff\xff\xff\xff\x07" + b"\x00a"
    with pytest.raises(CorruptBatch, match="claim"):
        decompress(Compression.SNAPPY, lie, 2**31)


@pytest.mark.parametrize("codec", REAL)
def test_a_cut_body_is_corrupt(codec: Compression) -> None:
    packed = compress(codec, PAYLOADS["text"][:3000])
    for length in [0, 1, 6, 7, 20, len(packed) // 2, len(packed) - 1]:
        if codec is Compression.ZSTD and length == 0:  # no frame, no content
            continue
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:length], 10_000)


@pytest.mark.parametrize("codec", REAL)
def test_damage_gives_bytes_or_corrupt_batch(codec: Compression) -> None:
    packed = bytearray(compress(codec, PAYLOADS["text"][:3000]))
    for position in range(len(packed)):
        for bit in (0, 3, 7):
            packed[position] ^= 1 << bit
            with contextlib.suppress(CorruptBatch):
                assert len(decompress(codec, packed, 10_000)) <= 10_000
            packed[position] ^= 1 << bit


@given(st.sampled_from(REAL), st.binary(max_size=200))
def test_arbitrary_bytes_give_bytes_or_corrupt_batch(codec, data):
    starts = {Compression.LZ4: b"\x04\x22\x4d\x18", Compression.SNAPPY: b"\x82SNAPPY\0"}
    for start in (b"", starts.get(codec, b"\x1f\x8b\x08\0")):
        with contextlib.suppress(CorruptBatch):
            assert len(decompress(codec, start + data, 1000)) <= 1000


@pytest.mark.parametrize(
    ("codec", "level"),
    [("gzip", 0), ("gzip", 10), ("lz4", 18), ("zstd", 23), ("snappy", 1), ("none", 1)],
)
def test_a_level_that_the_codec_has_not_is_refused(codec: str, level: int) -> None:
    with pytest.raises(ValueError, match="level"):
        compress(Compression.of(codec), b"x", level)


def test_codecs_have_kafkas_names() -> None:
    assert [codec.kafka_name for codec in Compression] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert Compression.of("uncompressed") is Compression.NONE
    with pytest.raises(ValueError, match="brotli"):
        Compression.of("brotli")


@given(st.binary(max_size=400) | st.binary(max_size=9).map(lambda data: data * 500))
def test_the_one_block_of_an_lz4_frame_is_what_the_frame_decompresses_to(data):
    frame = memoryview(compress(Compression.LZ4, data))
    found = decompress_single_block(frame)
    if data:
        assert found is not None
        assert bytes(found) == data
    else:
        assert found is None


@given(st.binary(max_size=60), st.integers(0, 40), st.binary(max_size=4))
def test_a_frame_that_is_taken_for_one_block_is_one(data, at, noise):
    frame = bytearray(compress(Compression.LZ4, data * 3))
    frame[at : at + len(noise)] = noise
    try:
        found = decompress_single_block(memoryview(frame))
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            decompress(Compression.LZ4, frame, 1 << 20)
    else:
        if found is not None:
            assert bytes(found) == bytes(decompress(Compression.LZ4, frame, 1 << 20))


@pytest.mark.parametrize("length", [0, 1, 6, 7, 10, 11, 14])
def test_a_cut_lz4_frame_is_not_taken_for_one_block(length: int) -> None:
    frame = memoryview(compress(Compression.LZ4, b"abc" * 9))
    assert decompress_single_block(frame[:length]) is None


def test_an_lz4_frame_of_two_blocks_or_of_linked_ones_is_not_taken_for_one_block() -> None:
    assert decompress_single_block(memoryview(compress(Compression.LZ4, bytes(70_000)))) is None
    linked = bytearray(compress(Compression.LZ4, b"abc" * 9))
    linked[4] &= ~0x20  # the bit of independent blocks
    assert decompress_single_block(memoryview(linked)) is None


@pytest.mark.parametrize("bit", [0x01, 0x02])
@pytest.mark.parametrize("size", [10, 200_000])
def test_an_lz4_frame_with_a_dictionary_or_a_reserved_bit_is_refused(bit: int, size: int) -> None:
    frame = bytearray(compress(Compression.LZ4, bytes(size)))
    frame[4] |= bit
    assert decompress_single_block(memoryview(frame)) is None
    with pytest.raises(CorruptBatch, match="reserved"):
        decompress(Compression.LZ4, frame, 1 << 20)


def dirty(size: int) -> memoryview:
    return memoryview(bytearray(b"?" * (size + 3)))


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("data", [b"", b"abc" * 9, bytes(150_000), os.urandom(70_000) + bytes(9)])
def test_bodies_in_taken_memory_are_the_same(codec: Compression, data: bytes) -> None:
    packed = compress(codec, data)
    assert bytes(decompress(codec, packed, 1 << 20, dirty)) == data
    if len(data) > 100 and codec is not Compression.NONE:
        with pytest.raises(BatchTooLarge):
            decompress(codec, packed, len(data) - 1, dirty)


@given(st.binary(max_size=60), st.integers(0, 40), st.binary(max_size=4))
def test_damaged_blocks_are_refused_in_taken_memory_too(data, at, noise):
    frame = bytearray(compress(Compression.LZ4, data * 3))
    frame[at : at + len(noise)] = noise
    try:
        found = decompress(Compression.LZ4, frame, 1 << 20, dirty)
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            decompress(Compression.LZ4, frame, 1 << 20)
    else:
        assert bytes(found) == bytes(decompress(Compression.LZ4, frame, 1 << 20))


def test_blocks_are_decompressed_to_their_places_without_a_copy() -> None:
    taken: list[bytearray] = []

    def take(size: int) -> memoryview:
        taken.append(bytearray(size))
        return memoryview(taken[-1])

    frame = memoryview(compress(Compression.LZ4, bytes(70_000)))
    found = decompress_plain_blocks(frame, 1 << 20, take)
    assert found is not None
    assert found.obj is taken[0]
    for length in (0, 7, 11, len(frame) - 1):
        assert decompress_plain_blocks(frame[:length], 1 << 20, take) is None
    assert decompress_plain_blocks(frame, 70_000 - 1, take) is None
