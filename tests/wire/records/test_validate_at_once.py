"""A batch that is checked and numbered at once is judged as step by step; a large one is finished elsewhere."""

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kavka.errors import ErrorCode
from kavka.wire.records.batch_check import Allowance, BatchCheck, Refusal
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import (
    HEADER_SIZE,
    TimestampType,
    encode_header,
    read_header,
)
from kavka.wire.records.validate import (
    BatchRules,
    begin_check,
    number_checked,
    number_produced,
)
from support.produced_batches import (
    CODECS,
    NOW,
    PLAIN,
    ROWS,
    code,
    produced,
)


def numbered(batch, rules=PLAIN, produce_version=11, base_offset=70, leader_epoch=3):
    return number_produced(
        memoryview(batch), rules, NOW, produce_version, base_offset, leader_epoch
    )


def judged_step_by_step(batch, rules, produce_version, base_offset=70, leader_epoch=3):
    check = begin_check(memoryview(batch), rules, NOW, produce_version)
    check.finish()
    return number_checked(check, base_offset, leader_epoch)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("produce_version", [3, 6, 7, 11])
def test_numbering_at_once_gives_what_checking_step_by_step_gives(
    codec: Compression, produce_version: int
) -> None:
    batch = produced(codec=codec)
    assert numbered(batch[:], PLAIN, produce_version) == judged_step_by_step(
        batch, PLAIN, produce_version
    )


header_changes = st.fixed_dictionaries(
    {},
    optional={
        "base_offset": st.sampled_from([0, 1, -1]),
        "batch_length": st.integers(-(2**31), 2**31 - 1) | st.integers(40, 80),
        "partition_leader_epoch": st.integers(-1, 5),
        "magic": st.integers(0, 3),
        "attributes": st.integers(-(2**15), 2**15 - 1) | st.integers(0, 0x7F),
        "last_offset_delta": st.integers(-2, 4),
        "base_timestamp": st.sampled_from([NOW, -1, 0, 2**63 - 1, -(2**63)]),
        "max_timestamp": st.sampled_from([NOW, NOW + 2, -1]),
        "producer_id": st.integers(-2, 2),
        "producer_epoch": st.integers(-2, 2),
        "base_sequence": st.integers(-2, 2),
        "record_count": st.integers(-1, 4),
    },
)


SOME_RULES = [
    PLAIN,
    BatchRules(max_message_bytes=80),
    BatchRules(needs_key=True),
    BatchRules(timestamp_before_max_ms=0, timestamp_after_max_ms=1),
    BatchRules(compression=Compression.NONE),
    BatchRules(timestamp_type=TimestampType.LOG_APPEND_TIME),
]


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=3), st.integers(-1, 3)), max_size=3),
    header_changes,
    st.sampled_from(SOME_RULES),
    st.binary(max_size=2),
    st.booleans(),
)
def test_a_batch_of_any_kind_is_judged_at_once_as_step_by_step(rows, changes, rules, more, is_true):
    batch = produced([(key, b"v", NOW + delay) for key, delay in rows] or ROWS[:1])
    batch += more
    header = read_header(batch)._replace(**changes)
    batch[:HEADER_SIZE] = encode_header(header)
    if is_true:
        batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    expected = judged_step_by_step(batch[:], rules, 11)
    assert numbered(batch, rules) == expected


@given(st.binary(max_size=30), st.integers(0, 200))
def test_broken_records_are_judged_at_once_as_step_by_step(noise, at):
    batch = produced()
    place = HEADER_SIZE + at % (len(batch) - HEADER_SIZE)
    batch[place : place + len(noise)] = noise
    header = read_header(batch)._replace(batch_length=len(batch) - 12)
    batch[:HEADER_SIZE] = encode_header(header)
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    assert numbered(batch[:]) == judged_step_by_step(batch, PLAIN, 11)


def test_bytes_that_cannot_be_numbered_in_place_are_an_error_of_the_caller() -> None:
    with pytest.raises(TypeError):
        number_produced(memoryview(bytes(produced())), PLAIN, NOW, 11, 70, 3)


LONG = [(b"k", b"v" * 50_000, NOW)] * 100


RECOMPRESSED = BatchRules(compression=Compression.ZSTD, max_message_bytes=1 << 24)


@pytest.mark.parametrize(
    ("codec", "rules"),
    [*((codec, PLAIN) for codec in CODECS[1:]), (Compression.LZ4, RECOMPRESSED)],
)
def test_a_check_that_outgrows_its_allowance_is_finished_elsewhere(codec, rules):
    batch = produced(LONG, codec)
    expected = numbered(batch[:], rules)
    allowance = Allowance(1 << 20)
    check = number_produced(memoryview(batch), rules, NOW, 11, 7, 1, allowance)
    assert isinstance(check, BatchCheck)
    assert check.result is None
    assert allowance.bytes_left > -(1 << 20)
    check.finish()
    buffer, header = number_checked(check, 70, 3)  # type: ignore[misc]
    assert header == expected[1]
    assert buffer == expected[0]


def test_a_large_batch_without_codec_is_checked_elsewhere() -> None:
    rules = BatchRules(max_message_bytes=1 << 24)
    batch = produced(LONG)
    expected = numbered(batch[:], rules)
    check = number_produced(memoryview(batch), rules, NOW, 11, 7, 1, Allowance(1 << 20))
    assert isinstance(check, BatchCheck)
    check.finish()
    assert number_checked(check, 70, 3) == expected
    assert code(produced(LONG)) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS[1:])
def test_what_a_request_decompresses_to_is_bounded(codec: Compression) -> None:
    allowance = Allowance(decompressed_bytes_left=12_000_000)
    found = [
        begin_check(produced(LONG, codec), PLAIN, NOW, 11, allowance).finish() for _ in range(3)
    ]
    assert [isinstance(one, Refusal) for one in found] == [False, False, True]
    assert isinstance(found[2], Refusal)
    assert found[2].code is ErrorCode.MESSAGE_TOO_LARGE
