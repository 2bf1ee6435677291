"""Decoding and encoding a slice at a time: the same messages, the same bytes, the same refusals; weights and bounds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from kavka.io import Sendable
from kavka.wire.codec import CorruptFrame, SlicedDecoding, decode, encode, encode_in_slices
from kavka.wire.compile_decode import SLICE_WEIGHT
from kavka.wire.messages.describe_groups import DescribeGroupsRequest
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)

Sample = Callable[[type, int], Any]


def joined(message: object, version: int) -> bytes:
    return b"".join(encode(message, version))  # type: ignore[arg-type]


def all_slices(cls: type, version: int, frame: bytes) -> tuple[SlicedDecoding, int]:
    decoding = SlicedDecoding(cls, version, frame)
    slices = 1
    while not decoding.step():
        slices += 1
    return decoding, slices


def encoded_in_slices(message: Any, version: int) -> tuple[bytes, int]:
    parts: list[Sendable] = []
    slices = 0
    steps = encode_in_slices(message, version, bytearray(), parts)
    while True:
        slices += 1
        try:
            next(steps)
        except StopIteration as stop:
            return b"".join([*parts, stop.value]), slices  # type: ignore[list-item]


def test_a_message_is_the_same_in_slices(
    message_class: type, version: int, wire_sample: Sample
) -> None:
    message = wire_sample(message_class, version)
    frame = joined(message, version)
    decoding, _slices = all_slices(message_class, version, frame)
    assert (decoding.message, decoding.end) == (message, len(frame))
    assert encoded_in_slices(message, version)[0] == frame


@pytest.mark.slow
def test_damaged_bytes_are_refused_in_slices_as_at_once(
    message_class: type, version: int, wire_sample: Sample
) -> None:
    frame = bytearray(joined(wire_sample(message_class, version), version))
    for position, byte in enumerate(bytes(frame)):
        for damaged in (0x00, 0x7F, 0xFF, byte ^ 0x04):
            frame[position] = damaged
            at_once, in_slices = (f(message_class, version, frame) for f in (whole, outcome))
            assert repr(in_slices) == repr(at_once)  # two numbers may be NaN
        frame[position] = byte


def whole(cls: type, version: int, frame: bytearray) -> object:
    try:
        return decode(cls, version, bytes(frame))
    except CorruptFrame as error:
        return error.reason


def outcome(cls: type, version: int, frame: bytearray) -> object:
    try:
        decoding, _slices = all_slices(cls, version, bytes(frame))
    except CorruptFrame as error:
        return error.reason
    if decoding.end != len(frame):
        return f"the frame has {len(frame)} bytes"
    return decoding.message


MANY: list[tuple[Any, int]] = [
    (MetadataRequest(topics=[MetadataRequestTopic(name="")] * 50_000), 9),
    (MetadataRequest(topics=[MetadataRequestTopic(name=f"topic-{n}") for n in range(20_000)]), 9),
    (DescribeGroupsRequest(groups=["g" * 100 + str(n) for n in range(20_000)]), 5),
    (OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="")] * 50_000), 7),
    (
        OffsetFetchRequest(
            group_id="g",
            topics=[OffsetFetchRequestTopic(name="t", partition_indexes=list(range(60_000)))],
        ),
        7,
    ),
    (
        FetchRequest(
            topics=[
                FetchRequestTopic(
                    topic="t",
                    partitions=[
                        FetchRequestPartition(partition=n, fetch_offset=1 << 40)
                        for n in range(20_000)
                    ],
                )
            ]
        ),
        11,
    ),
    (
        ProduceRequest(
            topic_data=[
                ProduceRequestTopic(
                    name="t",
                    partition_data=[
                        ProduceRequestPartition(index=n, records=b"xx") for n in range(20_000)
                    ],
                )
            ]
        ),
        9,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("many", range(len(MANY)))
def test_the_weight_is_the_memory_that_a_large_message_takes(many: int) -> None:
    message, version = MANY[many]
    frame = joined(message, version)
    all_slices(type(message), version, joined(type(message)(), version))  # compiled
    tracemalloc.start()
    try:
        decoding, slices = all_slices(type(message), version, frame)
        taken, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.75 * taken < decoding.weight < 1.6 * taken
    assert slices > 0.5 * decoding.weight / (SLICE_WEIGHT + 3 * 1024 * 40)


@pytest.mark.parametrize("many", range(len(MANY)))
def test_a_large_message_is_encoded_in_many_slices(many: int) -> None:
    message, version = MANY[many]
    encoded, slices = encoded_in_slices(message, version)
    assert encoded == joined(message, version)
    assert slices > 25


def test_no_structure_has_more_than_a_thousand_tagged_fields() -> None:
    """Two bytes each, they say nothing: half a million of them took a tenth of a second."""
    none = joined(MetadataRequest(topics=[]), 9)
    assert none[-1] == 0

    def tagged(count: int) -> bytes:
        varint = bytes([count & 0x7F | 0x80, count >> 7])
        return (
            none[:-1] + varint + b"".join(bytes([0x80 | n & 0x7F, n >> 7, 0]) for n in range(count))
        )

    assert decode(MetadataRequest, 9, tagged(1024)) == MetadataRequest(topics=[])
    with pytest.raises(CorruptFrame, match="1025 tagged fields"):
        decode(MetadataRequest, 9, tagged(1025))
    with pytest.raises(CorruptFrame, match="1025 tagged fields"):
        all_slices(MetadataRequest, 9, tagged(1025))
