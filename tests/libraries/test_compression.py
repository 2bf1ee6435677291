"""Each codec beside the encoders and decoders that other clients use."""

import gzip
import os

import cramjam
import lz4.frame
import pytest
import zstandard
from kafka import codec as theirs

from kavka.wire.records.compression import (
    Compression,
    compress,
    decompress,
    decompress_pieces,
)
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBody
from support.record_samples import PAYLOADS, REAL

READERS = {
    Compression.GZIP: gzip.decompress,
    Compression.SNAPPY: theirs.snappy_decode,
    Compression.LZ4: lz4.frame.decompress,
    Compression.ZSTD: lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


WRITERS = {
    "gzip": (Compression.GZIP, gzip.compress),
    "gzip in two members": (
        Compression.GZIP,
        lambda data: gzip.compress(data[:10]) + gzip.compress(data[10:]),
    ),
    "raw snappy": (Compression.SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "xerial snappy": (Compression.SNAPPY, theirs.snappy_encode),
    "xerial snappy twice": (
        Compression.SNAPPY,
        lambda data: (
            theirs.snappy_encode(data[:1])
            + theirs.snappy_encode(data[1:] or b"")[: None if data[1:] else 0]
        ),
    ),
    "lz4 of kafka-python": (Compression.LZ4, theirs.lz4_encode),
    "lz4 with every flag": (
        Compression.LZ4,
        lambda data: lz4.frame.compress(
            data, block_linked=False, block_checksum=True, content_checksum=True, store_size=True
        ),
    ),
    "lz4 with big blocks": (
        Compression.LZ4,
        lambda data: lz4.frame.compress(
            data, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX4MB
        ),
    ),
    "zstd": (Compression.ZSTD, lambda data: zstandard.ZstdCompressor().compress(data)),
    "zstd without its size": (
        Compression.ZSTD,
        lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data),
    ),
}


def pieces_of(codec, data, limit):
    """Copy the pieces: one is valid until the next."""
    for piece in decompress_pieces(codec, data, limit):
        if not isinstance(piece, int):
            yield bytes(piece)


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
@pytest.mark.parametrize("codec", REAL)
def test_others_read_what_we_compress(codec, payload):
    assert bytes(READERS[codec](compress(codec, payload))) == payload


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
@pytest.mark.parametrize(("codec", "write"), WRITERS.values(), ids=WRITERS)
def test_we_read_what_others_compress(codec, write, payload):
    packed = memoryview(write(payload))
    assert decompress(codec, packed, len(payload)) == payload
    assert b"".join(pieces_of(codec, packed, len(payload))) == payload


@pytest.mark.parametrize("size", [200, 70_000, 300_000])
def test_stored_lz4_frames_are_read_though_no_client_of_kafka_would(size: int) -> None:
    payload = PAYLOADS["text"][:size]
    linked = lz4.frame.compress(payload, block_linked=True)
    wrong = bytearray(compress(Compression.LZ4, payload))
    wrong[6] ^= 1
    for frame in (wrong, linked) if size > 65536 else (wrong,):
        assert decompress(Compression.LZ4, frame, size) == payload
        with pytest.raises(CorruptBody):
            list(pieces_of(Compression.LZ4, frame, size))
    with pytest.raises(BatchTooLarge):
        decompress(Compression.LZ4, linked, size - 1)


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_large_piece_is_announced(codec: Compression) -> None:
    data = bytes(4_000_000)
    packed = {
        Compression.SNAPPY: cramjam.snappy.compress_raw(data),
        Compression.LZ4: lz4.frame.compress(
            data, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX4MB
        ),
        Compression.ZSTD: cramjam.zstd.compress(data),
    }[codec]
    announced = 0
    for piece in decompress_pieces(codec, memoryview(bytes(packed)), len(data)):
        if isinstance(piece, int):
            announced = piece
        else:
            assert len(piece) <= max(announced, 256 * 1024)
    assert announced >= len(data)


def test_lz4_is_framed_as_the_java_client_does_it() -> None:
    frame = compress(Compression.LZ4, os.urandom(70_000))
    info = lz4.frame.get_frame_info(frame)
    assert frame[:7].hex() == "04224d18604082"
    assert not info["block_linked"]
    assert not info["content_checksum"]
    assert info["block_size"] == 65536


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        ("gzip", 1),
        ("gzip", 9),
        ("gzip", -1),
        ("lz4", 1),
        ("lz4", 9),
        ("lz4", 17),
        ("zstd", -5),
        ("zstd", 22),
    ],
)
def test_kafkas_levels_are_taken(codec: str, level: int) -> None:
    payload = PAYLOADS["text"][:50_000]
    found = Compression.of(codec)
    assert bytes(READERS[found](compress(found, payload, level))) == payload
