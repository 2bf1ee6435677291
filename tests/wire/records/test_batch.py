"""Batches built and read."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.wire.records.batch import (
    BatchBuilder,
    Record,
    decode_as,
    decode_batch,
    decode_records,
)
from kavka.wire.records.compression import Compression
from kavka.wire.records.control import (
    ControlType,
    EndMarker,
    control_type_of,
    decode_end_marker,
    encode_end_marker,
)
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBatch
from kavka.wire.records.header import (
    batch_crc,
    read_header,
    stamp_log_append_time,
    stamp_max_timestamp,
)
from support.record_samples import built

octets = st.none() | st.binary(max_size=30)
row = st.tuples(
    octets,
    octets,
    st.integers(-1, 2**62),
    st.none() | st.lists(st.tuples(st.text(max_size=5), octets), max_size=3),
)


@given(st.lists(row, min_size=1, max_size=30), st.sampled_from(list(Compression)))
def test_what_is_built_is_read(rows, codec):
    batch = built(rows, compression=codec)
    assert decode_batch(batch) == [
        Record(index, timestamp, 0, key, value, tuple(headers or ()))
        for index, (key, value, timestamp, headers) in enumerate(rows)
    ]
    header = read_header(batch)
    assert header.size == len(batch)
    assert header.crc == batch_crc(batch, header)
    assert header.max_timestamp == max(r[2] for r in rows)
    assert header.last_offset_delta == len(rows) - 1


@given(st.lists(row, min_size=1, max_size=30))
def test_the_size_is_never_below_that_of_the_batch(rows):
    builder = BatchBuilder()
    for key, value, timestamp, headers in rows:
        builder.append(key, value, timestamp, headers)
    assert len(builder.build()) <= builder.size
    assert len(builder) == len(rows)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 7990, 7999, 8000, 8191, 8192, 70_000, 2_200_000])
def test_the_size_is_near_that_of_the_batch(size: int) -> None:
    builder = BatchBuilder()
    for index in range(3):
        builder.append(b"k" * 10, b"v" * (size - 10) if size > 10 else b"", index * 1000)
    assert len(builder.build()) <= builder.size <= len(builder.build()) + 3 * 28


def test_a_builder_takes_each_compression_with_a_level() -> None:
    plain = decode_batch(built())
    for codec, level in ((Compression.GZIP, 1), (Compression.LZ4, 12), (Compression.ZSTD, 19)):
        assert decode_batch(built(compression=codec, level=level)) == plain


def test_the_producer_is_in_the_header() -> None:
    batch = built(producer_id=9, producer_epoch=3, base_sequence=40, transactional=True)
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 40)
    assert header.is_transactional


def test_an_empty_batch_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="needs a record"):
        BatchBuilder().build()


def test_text_is_refused_as_a_value() -> None:
    builder = BatchBuilder()
    builder.append(None, "text", 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        builder.build()


def test_records_with_the_logs_time_all_have_it() -> None:
    batch = built()
    header = stamp_log_append_time(batch, read_header(batch), 77)
    assert {(r.timestamp, r.timestamp_type) for r in decode_records(batch, header)} == {(77, 1)}


def test_a_max_timestamp_can_be_put_right() -> None:
    batch = built()
    header = stamp_max_timestamp(batch, read_header(batch), 1_900_000_000_000)
    assert header == read_header(batch)
    assert header.crc == batch_crc(batch, header)


def test_a_batch_that_decompresses_beyond_the_bound_is_refused() -> None:
    batch = built([(None, bytes(1_000_000), 0, None)], compression=Compression.ZSTD)
    with pytest.raises(BatchTooLarge):
        decode_records(batch, read_header(batch), limit=999_999)


def test_a_cut_batch_is_corrupt() -> None:
    batch = built()
    with pytest.raises(CorruptBatch):
        decode_records(batch[:-1], read_header(batch))


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_end_markers_are_read_back(kind):
    batch = encode_end_marker(EndMarker(kind, 12), 5, 2, 1000)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, -1)
    assert header.crc == batch_crc(batch, header)
    assert control_type_of(batch, header) is kind
    assert decode_end_marker(batch, header) == EndMarker(kind, 12)  # type: ignore[arg-type]
    record = decode_records(batch, header)[0]
    assert record.key == bytes([0, 0, 0, kind])  # type: ignore[list-item]
    assert record.value == bytes([0, 0, 0, 0, 0, 12])


def test_a_marker_without_its_key_is_corrupt() -> None:
    batch = built([(b"\0", b"", 0, None)])
    header = read_header(batch)._replace(attributes=0x30)
    with pytest.raises(CorruptBatch, match="key"):
        decode_end_marker(batch, header)


def test_a_control_type_of_a_later_release_is_unknown() -> None:
    batch = built([(b"\0\0\0\x09", b"", 0, None)])
    header = read_header(batch)._replace(attributes=0x30)
    assert control_type_of(batch, header) is None
    assert decode_end_marker(batch, header) is None


def test_records_can_have_leading_fields_of_their_readers_own() -> None:
    class Placed(NamedTuple):
        topic: str
        offset: int
        timestamp: int
        timestamp_type: int
        key: bytes | None
        value: bytes | None
        headers: tuple[tuple[str, bytes | None], ...]

    builder = BatchBuilder()
    builder.append(b"k", b"v", 7, [("h", b"1")])
    builder.append(None, b"w", 8)
    batch = builder.build(base_offset=40)
    placed = decode_as(Placed, ("t",), batch, read_header(batch))
    assert placed == [
        Placed("t", 40, 7, 0, b"k", b"v", (("h", b"1"),)),
        Placed("t", 41, 8, 0, None, b"w", ()),
    ]
    assert [type(record) for record in placed] == [Placed, Placed]
