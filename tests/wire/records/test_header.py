"""The header of a batch, read and patched in place."""

import contextlib

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kavka.wire.records import header as h
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.corrupt import CorruptBatch


def a_batch(count: int = 3, producer_id: int = -1, transactional: bool = False) -> bytearray:
    builder = BatchBuilder()
    for index in range(count):
        builder.append(b"key", b"value", 1000 + index)
    return builder.build(
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=7,
        transactional=transactional,
    )


def test_walk_gives_each_batch_with_its_position() -> None:
    first, second = a_batch(1), a_batch(5)
    headers = h.walk(b"??" + first + second + b"!", 2, 2 + len(first) + len(second))
    assert [(x.position, x.record_count) for x in headers] == [(2, 1), (2 + len(first), 5)]
    assert h.walk(b"") == []


@pytest.mark.parametrize("length", [-1, 0, 48, 70, 2**31 - 1, -(2**31)])
def test_a_length_that_lies_is_corrupt(length):
    batch = a_batch(1)
    assert len(batch) - 12 not in (length,)
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch):
        h.walk(batch + bytes(1))


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_another_magic_is_corrupt(magic: int) -> None:
    batch = a_batch(1)
    batch[16] = magic
    with pytest.raises(CorruptBatch, match="magic"):
        h.walk(batch)


def test_the_position_of_the_damage_is_reported() -> None:
    first, second = a_batch(1), a_batch(1)
    second[16] = 9
    with pytest.raises(CorruptBatch) as raised:
        h.walk(first + second)
    assert raised.value.position == len(first)


def test_a_cut_batch_is_corrupt_for_walk_and_left_out_by_walk_complete() -> None:
    whole, cut = a_batch(2), a_batch(2)
    for length in range(1, len(cut)):
        data = bytes(whole + cut[:length])
        assert [x.position for x in h.walk_complete(data)] == [0]
        with pytest.raises(CorruptBatch):
            h.walk(data)


def test_assigning_an_offset_keeps_the_checksum_true() -> None:
    batch = bytearray(b"..") + a_batch(3)
    header = h.read_header(batch, 2)
    assigned = h.assign(memoryview(batch), header, 1 << 40, 17)
    assert assigned == h.read_header(batch, 2)
    assert (assigned.base_offset, assigned.partition_leader_epoch) == (1 << 40, 17)
    assert h.batch_crc(batch, assigned) == assigned.crc == header.crc


def test_log_append_time_is_stamped_with_a_new_checksum() -> None:
    batch = bytearray(b"..") + a_batch(3)
    stamped = h.stamp_log_append_time(batch, h.read_header(batch, 2), 99_000)
    assert stamped == h.read_header(batch, 2)
    assert stamped.timestamp_type is h.TimestampType.LOG_APPEND_TIME
    assert stamped.max_timestamp == 99_000
    assert stamped.base_timestamp == 1000
    assert stamped.crc == crc32c(bytes(batch[2 + 21 :])) == h.batch_crc(batch, stamped)


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [
        (0, 0, 0),
        (5, 2, 7),
        (2**31 - 1, 0, 2**31 - 1),
        (2**31 - 1, 1, 0),
        (2**31 - 3, 5, 2),
        (-1, 4, -1),
    ],
)
def test_sequences_wrap_to_zero(base: int, delta: int, last: int) -> None:
    header = h.read_header(a_batch(1))
    assert header._replace(base_sequence=base, last_offset_delta=delta).last_sequence == last


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_kafka_has_not_given_out_is_corrupt(codec: int) -> None:
    header = h.read_header(a_batch(1))._replace(attributes=codec)
    with pytest.raises(CorruptBatch, match="codec"):
        _ = header.compression


@given(st.binary(max_size=200), st.integers(-5, 210))
def test_arbitrary_bytes_give_a_header_or_corrupt_batch(data, position):
    for read in (h.read_header, h.walk, h.walk_complete):
        with contextlib.suppress(CorruptBatch):
            read(data, position) if position >= 0 or read is h.read_header else None
