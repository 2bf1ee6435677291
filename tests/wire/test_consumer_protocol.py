"""Subscriptions and assignments, also those of other people's consumers."""

from __future__ import annotations

import pytest

from kavka.wire.codec import CorruptFrame
from kavka.wire.consumer_protocol import (
    Assignment,
    ConsumerProtocolTopic,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

OWNED = [ConsumerProtocolTopic(topic="t", partitions=[0, 2])]


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_keeps_what_its_version_has(version: int) -> None:
    whole = Subscription(
        topics=["t", "u"], user_data=b"x", owned_partitions=OWNED, generation_id=4, rack_id="r"
    )
    read = decode_subscription(encode_subscription(whole, version))
    assert (read.topics, read.user_data) == (["t", "u"], b"x")
    assert read.owned_partitions == (OWNED if version >= 1 else [])
    assert read.generation_id == (4 if version >= 2 else -1)
    assert read.rack_id == ("r" if version >= 3 else None)


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_is_the_same_in_all_versions(version: int) -> None:
    assignment = Assignment(assigned_partitions=OWNED, user_data=None)
    stored = encode_assignment(assignment, version)
    assert stored[:2] == bytes([0, version])
    assert decode_assignment(stored) == assignment


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    stored = encode_subscription(Subscription(topics=["t"], rack_id="r"))
    read = decode_subscription(b"\0\x09" + stored[2:] + b"what version 9 appends")
    assert (read.topics, read.rack_id) == (["t"], "r")


@pytest.mark.parametrize("stored", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\x01\0\0\0\x07", b"\0\0"])
def test_damaged_bytes_are_corrupt(stored: bytes) -> None:
    with pytest.raises(CorruptFrame):
        decode_subscription(stored)
    with pytest.raises(CorruptFrame):
        decode_assignment(stored)
