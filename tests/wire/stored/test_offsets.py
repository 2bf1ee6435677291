"""Records of `__consumer_offsets`."""

from __future__ import annotations

import pytest

from kavka.wire.codec import CorruptFrame
from kavka.wire.stored.offsets import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

COMMIT_KEY = OffsetCommitKey(group="g", topic="t", partition=3)
GROUP_KEY = GroupMetadataKey(group="g")


def test_the_key_of_an_offset_has_kafkas_bytes() -> None:
    assert encode_key(COMMIT_KEY) == b"\0\x01" + b"\0\x01g" + b"\0\x01t" + b"\0\0\0\x03"
    assert decode_key(encode_key(COMMIT_KEY)) == COMMIT_KEY


def test_the_old_key_of_an_offset_is_read_too() -> None:
    assert decode_key(b"\0\0" + encode_key(COMMIT_KEY)[2:]) == COMMIT_KEY


def test_the_key_of_a_group_has_kafkas_bytes() -> None:
    assert encode_key(GROUP_KEY) == b"\0\x02" + b"\0\x01g"
    assert decode_key(encode_key(GROUP_KEY)) == GROUP_KEY


def test_an_offset_is_written_in_version_3() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
    expected = b"\0\x03" + bytes(7) + b"\x05" + b"\0\0\0\x02" + b"\0\x01m" + bytes(7) + b"\x09"
    assert encode_value(value) == expected
    assert decode_value(COMMIT_KEY, expected) == value


def test_an_explicit_expiry_is_kept_by_version_1() -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9, expire_timestamp=20)
    assert encode_value(value)[:2] == b"\0\x01"
    assert decode_value(COMMIT_KEY, encode_value(value)) == value


def test_an_offset_of_kafka_4_is_read() -> None:
    topic_id = bytes(range(16))
    stored = b"\0\x04" + bytes(8) + b"\0\0\0\x01" + b"\x02m" + bytes(8) + b"\x01\x00\x10" + topic_id
    assert decode_value(COMMIT_KEY, stored).topic_id == topic_id


def test_a_group_is_written_in_version_3() -> None:
    member = GroupMetadataMember(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout=1,
        session_timeout=2,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m",
        current_state_timestamp=7, members=[member],
    )  # fmt: skip
    expected = (
        b"\0\x03" + b"\0\x08consumer" + b"\0\0\0\x04" + b"\0\x05range" + b"\0\x01m"
        + bytes(7) + b"\x07" + b"\0\0\0\x01"
        + b"\0\x01m" + b"\0\x01i" + b"\0\x01c" + b"\0\x02/h" + b"\0\0\0\x01" + b"\0\0\0\x02"
        + b"\0\0\0\x01s" + b"\0\0\0\x01a"
    )  # fmt: skip
    assert encode_value(value) == expected
    assert decode_value(GROUP_KEY, expected) == value


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    value = GroupMetadataValue(generation=4, current_state_timestamp=7)
    assert b"\xff\xff\xff\xff" in encode_value(value)
    assert decode_value(GROUP_KEY, encode_value(value)) == value


def test_keys_of_newer_kinds_are_named_but_not_understood() -> None:
    assert decode_key(b"\0\x05" + b"anything") == UnknownKey(5)


@pytest.mark.parametrize("stored", [b"", b"\0", b"\0\x01\0\x05g", b"\0\x02\0\x01g!"])
def test_a_damaged_key_is_corrupt(stored: bytes) -> None:
    with pytest.raises(CorruptFrame):
        decode_key(stored)


@pytest.mark.parametrize("stored", [b"", b"\0\x07" + bytes(40), b"\xff\xff", b"\0\x03" + bytes(5)])
def test_a_damaged_value_or_one_of_an_unknown_version_is_corrupt(stored: bytes) -> None:
    with pytest.raises(CorruptFrame):
        decode_value(COMMIT_KEY, stored)
    with pytest.raises(CorruptFrame):
        decode_value(GROUP_KEY, stored)
