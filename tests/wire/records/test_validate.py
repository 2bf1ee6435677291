"""Batches that a leader accepts from clients, and its refusals of the rest."""

import os
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.errors import ErrorCode
from kavka.wire.records import corrupt, validate
from kavka.wire.records.batch import Record, decode_records
from kavka.wire.records.batch_check import Checked, RecordError, Refusal
from kavka.wire.records.body import seal
from kavka.wire.records.compression import Compression, compress
from kavka.wire.records.control import ControlType, EndMarker, encode_end_marker
from kavka.wire.records.header import (
    HEADER_SIZE,
    TimestampType,
    batch_crc,
    read_header,
)
from kavka.wire.records.pure_fields import put_varint, read_varint
from kavka.wire.records.validate import (
    BatchRules,
    begin_check,
    recompress,
)
from support.examples import examples
from support.produced_batches import (
    CODECS,
    NOW,
    PLAIN,
    ROWS,
    check_produced,
    code,
    patched,
    prepare_produced,
    produced,
    refusal,
)


@pytest.mark.parametrize("codec", CODECS)
def test_a_sound_batch_is_accepted_as_it_is(codec: Compression) -> None:
    batch = produced(codec=codec)
    before = bytes(batch)
    assert check_produced(memoryview(batch), PLAIN, NOW) == [read_header(before)]
    assert batch == before


def test_an_idempotent_and_transactional_batch_is_accepted() -> None:
    batch = produced(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert isinstance(check_produced(batch, PLAIN, NOW), list)


def legacy_message(magic: int, key: bytes, value: bytes) -> bytes:
    """Return a message of before Kafka 0.11, with the offset 0."""
    timestamp = struct.pack(">q", NOW) if magic else b""
    fields = b"".join(struct.pack(">i", len(text)) + text for text in (key, value))
    content = bytes([magic, 0]) + timestamp + fields
    sealed = struct.pack(">I", zlib.crc32(content)) + content
    return struct.pack(">qi", 0, len(sealed)) + sealed


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_messages_are_refused(magic: int) -> None:
    message = legacy_message(magic, b"key", b"value")
    assert code(message, produce_version=3) is ErrorCode.INVALID_RECORD
    assert code(message, produce_version=2) is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize("magic", [3, 127, 200])
def test_a_magic_of_the_future_is_corrupt(magic: int) -> None:
    batch = produced()
    batch[16] = magic
    assert code(batch) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [0, 1, 12, 16])
def test_bytes_that_hold_no_batch_are_refused(length: int) -> None:
    assert code(produced()[:length]) is ErrorCode.INVALID_RECORD


def test_a_cut_batch_is_corrupt() -> None:
    batch = produced()
    for length in range(17, len(batch)):
        assert code(batch[:length]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1])
def test_a_length_that_lies_is_corrupt(length: int) -> None:
    batch = produced()
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    assert code(batch) is ErrorCode.CORRUPT_MESSAGE


def test_two_batches_are_refused() -> None:
    found = refusal(produced() + produced())
    assert found.code is ErrorCode.INVALID_RECORD
    assert "exactly one batch" in found.message


def test_garbage_after_the_batch_is_corrupt() -> None:
    assert code(produced() + b"garbage") is ErrorCode.CORRUPT_MESSAGE


def test_every_flipped_bit_behind_the_checksum_is_seen() -> None:
    batch = produced(ROWS[:2])
    for position in range(17, len(batch)):
        batch[position] ^= 4
        assert code(batch) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        batch[position] ^= 4


def test_a_base_offset_other_than_zero_is_refused() -> None:
    assert code(produced(base_offset=5)) is ErrorCode.INVALID_RECORD


def test_the_size_limit_is_exact() -> None:
    batch = produced()
    rules = BatchRules(max_message_bytes=len(batch))
    assert isinstance(check_produced(batch, rules, NOW), list)
    assert code(batch, BatchRules(max_message_bytes=len(batch) - 1)) is ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_needs_produce_seven() -> None:
    batch = produced(codec=Compression.ZSTD)
    assert code(batch, produce_version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert isinstance(check_produced(batch, PLAIN, NOW, 7), list)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    assert code(patched(produced(), attributes=codec)) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": 0},
        {"record_count": -1, "last_offset_delta": -2},
        {"record_count": 19},
        {"record_count": 19, "last_offset_delta": 18},
        {"record_count": 21, "last_offset_delta": 20},
        {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"last_offset_delta": 18},
        {"last_offset_delta": -1},
    ],
)
def test_a_count_that_lies_is_refused(codec, fields):
    assert code(patched(produced(codec=codec), **fields)) is ErrorCode.INVALID_RECORD


def test_control_batches_of_clients_are_refused() -> None:
    marker = encode_end_marker(EndMarker(ControlType.COMMIT, 0), 5, 0, NOW)
    found = refusal(marker)
    assert found.code is ErrorCode.INVALID_RECORD
    assert "control" in found.message


def test_a_transactional_batch_without_a_producer_is_refused() -> None:
    assert code(produced(transactional=True)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("fields", [{"base_sequence": -1}, {"producer_epoch": -1}])
def test_a_producer_without_sequence_or_epoch_is_refused(fields):
    batch = produced(producer_id=1, producer_epoch=0, base_sequence=0)
    assert code(patched(batch, **fields)) is ErrorCode.INVALID_RECORD


def test_a_client_must_not_claim_the_logs_time() -> None:
    batch = patched(produced(), attributes=8)
    assert code(batch) is ErrorCode.INVALID_TIMESTAMP
    log_time = BatchRules(timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert code(batch, log_time) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", CODECS)
def test_a_compacted_topic_needs_keys(codec: Compression) -> None:
    batch = produced([(b"k", b"", NOW), (None, b"", NOW), (None, None, NOW)], codec)
    found = refusal(batch, BatchRules(needs_key=True))
    assert found.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in found.record_errors] == [1, 2]
    assert all(isinstance(error, RecordError) and error.message for error in found.record_errors)
    assert isinstance(check_produced(batch, PLAIN, NOW), list)


@pytest.mark.parametrize("codec", CODECS)
def test_timestamps_are_held_to_their_bounds(codec: Compression) -> None:
    rules = BatchRules(timestamp_before_max_ms=100, timestamp_after_max_ms=10)
    edges = [(b"", b"", NOW - 100), (b"", b"", NOW + 10), (b"", b"", -1)]
    assert isinstance(check_produced(produced(edges, codec), rules, NOW), list)
    found = refusal(produced([*edges, (b"", b"", NOW - 101), (b"", b"", NOW + 11)], codec), rules)
    assert found.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in found.record_errors] == [3, 4]


def test_log_append_time_stamps_and_does_not_look_at_timestamps() -> None:
    rules = BatchRules(
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        timestamp_before_max_ms=0,
        timestamp_after_max_ms=0,
    )
    batch = produced([(b"k", b"v", 5)])
    headers = check_produced(memoryview(batch), rules, NOW)
    assert headers == [read_header(batch)]
    assert decode_records(batch, read_header(batch)) == [Record(0, NOW, 1, b"k", b"v")]
    assert batch_crc(batch, read_header(batch)) == read_header(batch).crc


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("lie", [0, NOW + 10**12])
def test_a_max_timestamp_that_lies_is_put_right(codec, lie):
    batch = patched(produced(codec=codec), max_timestamp=lie)
    headers = check_produced(batch, PLAIN, NOW)
    assert headers == [read_header(batch)]
    assert read_header(batch).max_timestamp == NOW + 19
    assert batch_crc(batch, read_header(batch)) == read_header(batch).crc


def test_offset_deltas_with_a_gap_are_refused() -> None:
    batch = produced([(b"a", b"1", NOW), (b"b", b"2", NOW)])
    at = batch.index(b"\x02a") - 1  # the offset delta before the first key
    batch[at] = 6
    found = refusal(patched(batch))
    assert found.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in found.record_errors] == [0]


def out_of_place(codec: Compression, keys=(b"a", b"b")) -> bytearray:
    """Return a batch whose second record has the offset delta of a fifth."""
    plain = produced([(key, b"1", NOW) for key in keys])
    size = plain[HEADER_SIZE] // 2
    plain[HEADER_SIZE + size + 4] = 8
    return with_body(plain[HEADER_SIZE:], 2, codec)  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_offset_deltas_with_a_gap_are_a_fault_as_in_kafka(codec: Compression) -> None:
    found = refusal(out_of_place(codec))
    assert found.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert found.record_errors == ()


@pytest.mark.parametrize("codec", CODECS)
def test_what_the_topic_refuses_comes_before_offset_deltas(codec: Compression) -> None:
    found = refusal(out_of_place(codec, (b"a", None)), BatchRules(needs_key=True))
    assert found.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in found.record_errors] == [1]
    assert "key" in found.record_errors[0].message


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("bits", [2, 4, 60])
@pytest.mark.parametrize("where", [0, 1, 39])
def test_a_record_that_is_not_as_long_as_it_says_is_refused(
    codec: Compression, bits: int, where: int
) -> None:
    rows = [(b"k", os.urandom(10 + 37_001 * (i % 5)), NOW + i) for i in range(40)]
    plain, at = produced(rows), HEADER_SIZE
    for _ in range(where):
        length, begin = read_varint(plain, at, len(plain), 5, 0)  # type: ignore[arg-type]
        at = begin + length
    plain[at] ^= bits
    found = refusal(with_body(plain[HEADER_SIZE:], 40, codec), BatchRules(1 << 24))  # type: ignore[arg-type]
    assert found.code is ErrorCode.INVALID_RECORD
    if codec:
        assert [error.batch_index for error in found.record_errors] == [where]


def test_a_record_that_misleads_does_not_hide_a_wrong_checksum() -> None:
    plain = produced([(b"k", os.urandom(300), NOW)] * 900)
    plain[HEADER_SIZE] ^= 2
    batch = with_body(plain[HEADER_SIZE:], 900, Compression.GZIP)  # type: ignore[arg-type]
    assert code(batch) is ErrorCode.INVALID_RECORD
    batch[-5] ^= 1  # of the member's CRC
    assert code(patched(batch)) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", CODECS)
def test_without_a_limit_any_timestamp_is_taken(codec: Compression) -> None:
    batch = produced([(b"k", b"v", -(2**63)), (b"k", b"v", NOW), (b"k", b"v", 2**63 - 1)], codec)
    assert isinstance(check_produced(batch, PLAIN, NOW), list)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_body_that_does_not_decompress_is_refused(codec: Compression) -> None:
    batch = produced(codec=codec)
    poisoned = batch[:HEADER_SIZE] + b"\xff" + os.urandom(len(batch) - HEADER_SIZE - 1)
    assert code(patched(poisoned)) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.fixture
def small_rules(monkeypatch: pytest.MonkeyPatch) -> BatchRules:
    """Rules whose bound is small: 4 MiB for a body."""
    monkeypatch.setattr(validate, "_BODY_LIMIT", 0)
    return BatchRules(max_message_bytes=1 << 18)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_record_that_decompresses_beyond_the_bound_is_refused(codec, small_rules):
    limit = small_rules.body_limit
    fits, bomb = (
        produced([(b"k", bytes(size), NOW)], codec) for size in (limit - 99, limit + (1 << 20))
    )
    assert len(bomb) <= small_rules.max_message_bytes
    assert isinstance(check_produced(fits, small_rules, NOW), list)
    assert code(bomb, small_rules) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_records_that_decompress_beyond_the_bound_are_refused(codec, small_rules):
    bomb = produced([(b"k", bytes(20_000), NOW)] * 1000, codec)
    assert len(bomb) <= small_rules.max_message_bytes
    assert code(bomb, small_rules) is ErrorCode.MESSAGE_TOO_LARGE
    assert isinstance(check_produced(bomb, BatchRules(max_message_bytes=1 << 22), NOW), list)


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_cross_pieces_are_checked(codec: Compression) -> None:
    rows = [(b"k", os.urandom(10 + 37_001 * (i % 5)), NOW + i) for i in range(40)]
    rules = BatchRules(max_message_bytes=1 << 24, needs_key=True)
    assert isinstance(check_produced(produced(rows, codec), rules, NOW), list)
    rows[33] = (None, *rows[33][1:])  # type: ignore[assignment]
    found = refusal(produced(rows, codec), rules)
    assert [error.batch_index for error in found.record_errors] == [33]


def with_body(body: bytes, count: int, codec: Compression) -> bytearray:
    return seal(bytearray(HEADER_SIZE) + body, count, NOW, NOW, compression=codec)


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=8), st.binary(max_size=8)), min_size=1, max_size=5
    ),
    st.sampled_from(CODECS),
    st.data(),
)
def test_what_is_accepted_can_be_read(pairs, codec, data):
    batch = produced([(key, value, NOW) for key, value in pairs])
    body = bytearray(batch[HEADER_SIZE:])
    for _ in range(data.draw(st.integers(0, 2))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    poisoned = with_body(body, len(pairs), codec)  # type: ignore[arg-type]
    found = check_produced(poisoned, PLAIN, NOW)
    if isinstance(found, list):
        records = decode_records(poisoned, found[0])
        assert [record.offset for record in records] == list(range(len(pairs)))
        assert found[0].max_timestamp == max(-1, *(record.timestamp for record in records))
    else:
        fails = codec and "offsets" in found.message
        assert found.code is (ErrorCode.UNKNOWN_SERVER_ERROR if fails else ErrorCode.INVALID_RECORD)


@given(st.binary(max_size=300), st.integers(0, 11))
def test_arbitrary_bytes_are_refused(data, produce_version):
    assert isinstance(check_produced(bytearray(data), PLAIN, NOW, produce_version), Refusal)


@settings(max_examples=examples(200))
@given(st.sampled_from(CODECS), st.data())
def test_arbitrary_headers_with_a_true_checksum_do_no_harm(codec, data):
    batch = produced(codec=codec)
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(21, 60))] = data.draw(st.integers(0, 255))
    batch = patched(batch)
    found = check_produced(batch, PLAIN, NOW)
    if isinstance(found, list):
        assert len(decode_records(batch, found[0])) == found[0].record_count


@pytest.mark.parametrize("target", CODECS)
@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_is_recompressed(codec, target):
    batch = produced(codec=codec, producer_id=4, producer_epoch=1, base_sequence=9)
    made = recompress(batch, read_header(batch), target)
    header = read_header(made)
    assert header.compression is target
    assert header.crc == batch_crc(made, header)
    assert (header.producer_id, header.base_sequence, header.record_count) == (4, 9, 20)
    assert decode_records(made, header) == decode_records(batch, read_header(batch))


def test_a_topics_compression_type_is_applied() -> None:
    batch = produced(codec=Compression.LZ4)
    same = prepare_produced(batch, BatchRules(compression=Compression.LZ4), NOW)
    assert not isinstance(same, Refusal)
    assert same.buffer is batch
    other = prepare_produced(
        batch, BatchRules(compression=Compression.ZSTD, compression_level=9), NOW
    )
    assert not isinstance(other, Refusal)
    assert other.header == read_header(other.buffer)
    assert other.header.compression is Compression.ZSTD
    assert decode_records(other.buffer, other.header) == decode_records(batch, read_header(batch))


def test_a_batch_that_grows_too_large_by_recompression_is_refused() -> None:
    batch = produced([(b"k", bytes(5000), NOW)], Compression.ZSTD)
    rules = BatchRules(compression=Compression.NONE, max_message_bytes=2000)
    found = prepare_produced(batch, rules, NOW)
    assert isinstance(found, Refusal)
    assert found.code is ErrorCode.MESSAGE_TOO_LARGE
    assert isinstance(prepare_produced(batch[:70], rules, NOW), Refusal)


def test_an_empty_compressed_body_is_refused() -> None:
    for codec in CODECS:
        body = compress(codec, b"")
        batch = seal(bytearray(HEADER_SIZE) + body, 1, NOW, NOW)
        assert code(patched(batch, attributes=int(codec))) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_is_rewritten_is_numbered_from_zero_as_in_kafka(codec: Compression) -> None:
    other = Compression.LZ4 if codec is not Compression.LZ4 else Compression.ZSTD
    check = begin_check(memoryview(out_of_place(codec)), BatchRules(compression=other), NOW)
    found = check.finish()
    assert isinstance(found, Checked)
    assert found.header.compression is other
    assert batch_crc(found.buffer, found.header) == found.header.crc
    assert decode_records(found.buffer, found.header) == [
        Record(0, NOW, 0, b"a", b"1"),
        Record(1, NOW, 0, b"b", b"1"),
    ]


def test_more_wrong_offsets_than_are_noted_hide_no_record_without_key_of_a_rewritten_batch() -> (
    None
):
    count = corrupt.MAX_VIOLATIONS + 2
    body = bytearray()
    for index in range(count):
        fields = bytearray(2)
        put_varint(fields, index + 1)  # one more than it should be
        put_varint(fields, -1 if index == count - 1 else 0)
        put_varint(fields, 0)
        fields += bytes(1)
        put_varint(body, len(fields))
        body += fields
    batch = with_body(bytes(body), count, Compression.GZIP)
    found = refusal(batch, BatchRules(compression=Compression.LZ4, needs_key=True))
    assert found.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in found.record_errors] == [count - 1]
