"""The records of a batch, some at a time, are the records of the batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.wire.records.batch import BatchBuilder, decode_records
from kavka.wire.records.body import body_of
from kavka.wire.records.compression import Compression
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import HEADER_SIZE, read_header
from kavka.wire.records.slices import body_if_small, record_slices

NOW = 1_700_000_000_000


def batch_of(values: list[bytes | None], codec: Compression = Compression.NONE) -> bytearray:
    builder = BatchBuilder()
    for index, value in enumerate(values):
        builder.append(b"k", value, NOW + index)
    return builder.build(codec, base_offset=70)


@given(
    st.lists(st.none() | st.binary(max_size=200), min_size=1, max_size=30),
    st.integers(1, 10),
    st.sampled_from(Compression),
)
def test_slices_are_the_records_of_the_batch(
    values: list[bytes | None], max_records: int, codec: Compression
) -> None:
    batch = batch_of(values, codec)
    header = read_header(batch)
    body = body_if_small(batch, header)
    assert body is not None
    slices = list(record_slices(body, header, max_records))
    assert [record for some in slices for record in some] == decode_records(batch, header)
    assert max(map(len, slices)) <= max_records


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_body_that_is_large_is_not_decompressed_at_once(codec: Compression) -> None:
    batch = batch_of([bytes(1_000_000)], codec)
    header = read_header(batch)
    assert body_if_small(batch, header) is None
    (records,) = record_slices(body_of(batch, header), header, 10)
    assert [record.value for record in records] == [bytes(1_000_000)]


def test_damage_ends_the_slices_where_it_is() -> None:
    batch = batch_of([b"v"] * 10)
    header = read_header(batch)
    for damaged in (header._replace(record_count=11), header._replace(record_count=9)):
        body = (batch, HEADER_SIZE, header.end)
        slices = record_slices(body, damaged, 4)
        assert len(next(slices)) == 4
        assert len(next(slices)) == 4
        with pytest.raises(CorruptBatch):
            list(slices)


@pytest.mark.parametrize("length", [b"\x01", b"\xff" * 6, b"\xfe\x7f", b"\xff"])
def test_a_length_that_is_a_lie_is_corrupt(length: bytes) -> None:
    header = read_header(batch_of([b"v"]))._replace(record_count=100)
    with pytest.raises(CorruptBatch):
        list(record_slices((length, 0, len(length)), header, 4))
