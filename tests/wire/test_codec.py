"""Every message in every version: there and back, and what happens to bytes that are wrong."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kavka.errors import ErrorCode, KafkaError
from kavka.wire.codec import CorruptFrame, decode, decoder_of, encode
from kavka.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kavka.wire.messages.create_topics import CreateTopicsRequest
from kavka.wire.messages.describe_groups import DescribeGroupsRequest
from kavka.wire.messages.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from kavka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.wire.messages.metadata import MetadataRequest, MetadataResponse
from kavka.wire.messages.offset_commit import OffsetCommitRequest
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from kavka.wire.schema import (
    binary,
    boolean,
    f64,
    field,
    message,
    schema_of,
    string,
    struct,
    u16,
    u32,
    uuid,
)
from kavka.wire.source import source_of
from support.examples import examples

Values = Callable[[type, int], st.SearchStrategy[Any]]
Sample = Callable[[type, int], Any]
QUICK = settings(
    max_examples=examples(4),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def joined(message: object, version: int) -> bytes:
    return b"".join(encode(message, version))  # type: ignore[arg-type]


def test_a_message_comes_back_as_it_was(
    message_class: type, version: int, wire_values: Values
) -> None:
    @QUICK
    @given(wire_values(message_class, version))
    def check(message: Any) -> None:
        assert decode(message_class, version, joined(message, version)) == message

    check()


@pytest.mark.slow
def test_damaged_bytes_give_a_value_or_corrupt_frame(
    message_class: type, version: int, wire_sample: Sample
) -> None:
    frame = bytearray(joined(wire_sample(message_class, version), version))
    for position, byte in enumerate(bytes(frame)):
        for damaged in {0x00, 0x01, 0x7F, 0x80, 0xFF, byte ^ 0x04} - {byte}:
            frame[position] = damaged
            _decodes_or_is_corrupt(message_class, version, frame)
        frame[position] = byte


def test_arbitrary_bytes_give_a_value_or_corrupt_frame(message_class: type, version: int) -> None:
    @QUICK
    @given(st.binary(max_size=80))
    def check(frame: bytes) -> None:
        _decodes_or_is_corrupt(message_class, version, frame)

    check()


def test_a_truncated_frame_is_corrupt(
    message_class: type, version: int, wire_sample: Sample
) -> None:
    frame = joined(wire_sample(message_class, version), version)
    for end in range(len(frame)):
        with pytest.raises(CorruptFrame):
            decode(message_class, version, frame[:end])


def test_bytes_after_a_message_are_corrupt(message_class: type, version: int) -> None:
    frame = joined(message_class(), version) + b"\0"
    with pytest.raises(CorruptFrame):
        decode(message_class, version, frame)


def _decodes_or_is_corrupt(cls: type, version: int, frame: bytes | bytearray) -> None:
    try:
        made = decode(cls, version, frame)  # type: ignore[var-annotated]
    except CorruptFrame:
        return
    assert type(made) is cls
    again = joined(made, version)
    assert joined(decode(cls, version, again), version) == again


@pytest.mark.parametrize("count", [1000, 0x7FFF_FFFE])
@pytest.mark.parametrize(
    ("cls", "version", "before"),
    [
        (MetadataRequest, 1, b""),
        (MetadataRequest, 12, b""),
        (ProduceRequest, 2, b"\0\1\0\0\0\0"),
        (DescribeGroupsRequest, 5, b""),
    ],
)
def test_a_count_that_the_frame_cannot_hold_allocates_nothing(
    cls: type, version: int, before: bytes, count: int
) -> None:
    is_flexible = version in schema_of(cls).flexible
    length = _varint(count + 1) if is_flexible else count.to_bytes(4, "big")
    frame = before + length + b"\0" * 100
    with pytest.raises(CorruptFrame, match="do not fit"):
        decode(cls, version, frame)
    assert _peak_of_decoding(cls, version, frame) < 20_000


def test_memory_is_bounded_by_the_frame(message_class: type, version: int) -> None:
    for byte in (0, 1, 2, 64, 128):
        frame = bytes([byte]) * 4096
        _decodes_or_is_corrupt(message_class, version, frame)
        assert _peak_of_decoding(message_class, version, frame) < 300 * len(frame)


def _peak_of_decoding(cls: type, version: int, frame: bytes) -> int:
    tracemalloc.start()
    try:
        with contextlib.suppress(CorruptFrame):
            decode(cls, version, frame)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def test_a_count_of_numbers_is_measured_by_their_width() -> None:
    frame = joined(MetadataResponse(), 0)[:4] + b"\0\0\0\1" + b"\0\0\0\1t\0\0\0\1" + b"\0" * 10
    with pytest.raises(CorruptFrame):
        decode(MetadataResponse, 0, frame + b"\0\0\0\x08" + b"\0" * 31)


def test_a_null_where_none_may_be_is_corrupt() -> None:
    with pytest.raises(CorruptFrame, match="null in group_id"):
        decode(HeartbeatRequest, 0, b"\xff\xff" + b"\0" * 8)


def test_text_that_is_not_utf8_is_corrupt() -> None:
    with pytest.raises(CorruptFrame, match="utf-8"):
        decode(HeartbeatRequest, 0, b"\0\1\xff" + b"\0" * 6)


def test_corrupt_frame_says_where() -> None:
    frame = joined(HeartbeatRequest(group_id="group", member_id="member"), 0)
    with pytest.raises(CorruptFrame) as caught:
        decode(HeartbeatRequest, 0, frame[:-1])
    assert caught.value.position == 2 + 5 + 4 + 2


def test_a_variable_length_above_31_bits_is_corrupt() -> None:
    with pytest.raises(CorruptFrame, match="31 bits"):
        decode(HeartbeatRequest, 4, b"\xff\xff\xff\xff\xff\x01" + b"\0" * 20)


def test_a_text_longer_than_kafka_allows_is_refused_both_ways() -> None:
    with pytest.raises(CorruptFrame, match="longer than 32767"):
        decode(HeartbeatRequest, 4, _varint(40_001) + b"a" * 40_100)
    for version in (3, 4):
        with pytest.raises(ValueError, match=r"longer|format"):
            encode(HeartbeatRequest(group_id="a" * 40_000), version)


def test_unknown_tagged_fields_are_skipped() -> None:
    known = joined(HeartbeatResponse(throttle_time_ms=3), 4)
    tags = b"\x02" + b"\x05\x03abc" + b"\xff\x01" + _varint(200) + b"x" * 200
    assert decode(HeartbeatResponse, 4, known[:-1] + tags).throttle_time_ms == 3


def test_a_tagged_field_is_found_among_unknown_ones() -> None:
    known = joined(ApiVersionsResponse(finalized_features_epoch=7), 3)
    position = known.index(b"\x01\x01\x08")
    frame = known[:position] + b"\x03" + b"\x00\x01\x01" + known[position + 1 :] + b"\x28\x01z"
    assert decode(ApiVersionsResponse, 3, frame).finalized_features_epoch == 7


def test_a_tagged_field_of_another_length_is_corrupt() -> None:
    known = joined(ApiVersionsResponse(finalized_features_epoch=7), 3)
    with pytest.raises(CorruptFrame, match="another length"):
        decode(ApiVersionsResponse, 3, known.replace(b"\x01\x01\x08", b"\x01\x01\x09") + b"\0")


def test_a_tagged_field_past_the_end_is_corrupt() -> None:
    known = joined(HeartbeatResponse(), 4)
    with pytest.raises(CorruptFrame, match="runs past the end"):
        decode(HeartbeatResponse, 4, known[:-1] + b"\x01\x05\x7fabc")


def test_a_value_that_the_version_lacks_is_refused() -> None:
    with pytest.raises(KafkaError, match="validate_only") as caught:
        encode(CreateTopicsRequest(validate_only=True), 0)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_an_ignorable_value_that_the_version_lacks_is_dropped() -> None:
    message = OffsetCommitRequest(group_id="g", retention_time_ms=5)
    assert decode(OffsetCommitRequest, 7, joined(message, 7)).retention_time_ms == -1


def test_null_in_a_version_that_cannot_say_it_is_refused() -> None:
    with pytest.raises(KafkaError, match="null for topics"):
        encode(MetadataRequest(topics=None), 0)


def test_a_number_out_of_range_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="HeartbeatRequest v4"):
        encode(HeartbeatRequest(generation_id=1 << 31), 4)


def test_a_version_that_does_not_exist_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no version 5"):
        encode(HeartbeatRequest(), 5)
    with pytest.raises(ValueError, match="no version -1"):
        decode(HeartbeatRequest, -1, b"")


def test_a_field_absent_in_the_version_has_its_default() -> None:
    assert decode(MetadataResponse, 0, joined(MetadataResponse(), 0)).controller_id == -1


def _produce(payload: bytes | bytearray) -> ProduceRequest:
    partition = ProduceRequestPartition(index=0, records=payload)
    return ProduceRequest(topic_data=[ProduceRequestTopic(name="t", partition_data=[partition])])


def test_records_are_memory_of_the_frame() -> None:
    frame = bytearray(joined(_produce(b"abc"), 9))
    records = decode(ProduceRequest, 9, frame).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[0] = ord("z")
    assert b"zbc" in frame


def test_long_records_are_not_copied_when_encoded() -> None:
    payload = b"x" * 100_000
    parts = encode(_produce(payload), 9)
    assert any(part is payload for part in parts)
    assert [len(part) for part in parts if part is not payload][-1] == 3  # type: ignore[arg-type]


def test_short_records_share_a_buffer_with_their_neighbours() -> None:
    assert len(encode(_produce(b"x" * 100), 9)) == 1


class SomeRange:
    """A range of a file as far as an encoder checks it."""

    length = 7

    def __init__(self) -> None:
        self.file = None
        self.position = 0

    def release(self) -> None:
        raise AssertionError("the sender releases, not the encoder")


@pytest.mark.parametrize("version", [4, 12])
def test_a_range_of_a_file_is_a_part_of_its_own(version: int) -> None:
    waiting: Any = SomeRange()
    partition = FetchResponsePartition(partition_index=1, records=waiting)
    message = FetchResponse(responses=[FetchResponseTopic(topic="t", partitions=[partition])])
    parts = encode(message, version)
    place = parts.index(waiting)
    before = b"".join(parts[:place])  # type: ignore[arg-type]
    assert before.endswith(b"\x08" if version >= 12 else b"\0\0\0\x07")
    filled = b"".join(b"records" if part is waiting else part for part in parts)  # type: ignore[misc]
    assert decode(FetchResponse, version, filled).responses[0].partitions[0].records == b"records"


def test_stored_bytes_are_not_tied_to_the_frame() -> None:
    from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest

    frame = bytearray(joined(SaslAuthenticateRequest(auth_bytes=b"token"), 2))
    decoded = decode(SaslAuthenticateRequest, 2, memoryview(frame))
    frame[:] = bytes(len(frame))
    assert decoded.auth_bytes == b"token"


def test_a_message_can_stand_behind_a_header() -> None:
    message = ApiVersionsRequest(client_software_name="kavka", client_software_version="1")
    assert decode(ApiVersionsRequest, 3, b"header" + joined(message, 3), 6) == message


def test_generated_code_can_be_read() -> None:
    source = source_of(decoder_of(ProduceResponse, 9)[0])
    assert "unpack_ihqqq(data, pos); pos += 30" in source


@struct
class Inner:
    numbers: list[u16] = field()
    text: string | None = field(nullable="0+", default=None)


@message(versions="0-1", flexible="1+")
class Everything:
    """The types that no API of today puts where they stand here."""

    ids: list[uuid] = field()
    flags: list[boolean] = field()
    ratios: list[f64] = field()
    wide: u32 = field()
    texts: list[string] | None = field(nullable="0+", default=None)
    blobs: list[binary] = field()
    inner: Inner = field()
    perhaps: Inner | None = field(nullable="0+", default=None)
    tagged_id: uuid = field("1+", tag=3, ignorable=True)
    tagged_text: string | None = field("1+", nullable="1+", default=None, tag=1)
    tagged_list: list[Inner] = field("1+", tag=200)
    tagged_perhaps: Inner | None = field("1+", nullable="1+", default=None, tag=2)


@pytest.mark.parametrize("version", [0, 1])
def test_every_type_can_stand_anywhere(version: int, wire_values: Values) -> None:
    @settings(max_examples=examples(100), deadline=None)
    @given(wire_values(Everything, version))
    def check(message: Any) -> None:
        assert decode(Everything, version, joined(message, version)) == message

    check()


def test_tagged_fields_are_written_by_ascending_tag() -> None:
    message = Everything(tagged_id=b"\1" * 16, tagged_text="a", tagged_list=[Inner()])
    tags = joined(message, 1)[len(joined(Everything(), 1)) - 1 :]
    assert tags[:4] == b"\x03\x01\x02\x02"
    assert tags[5:7] == b"\x03\x10"
    assert tags[23:25] == b"\xc8\x01"
