"""Replicas compared batch by batch."""

from __future__ import annotations

import re

import pytest

from kavka.cli.admin.replica_comparison import NOTHING, Lag, ReplicasDiffer, compare_round
from kavka.cli.commands.replica_verification import report_line
from kavka.client.admin.replica_records import ReplicaRecords
from kavka.ids import TopicPartition
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.corrupt import CorruptBatch

AT = TopicPartition("t", 0)


def batch(first: int, value: bytes = b"v", records: int = 2) -> bytes:
    builder = BatchBuilder()
    for _ in range(records):
        builder.append(None, value, 0)
    return bytes(builder.build(base_offset=first))


def round_of(
    replicas: dict[int, ReplicaRecords], offset: int = 0
) -> tuple[Lag, dict[TopicPartition, int]]:
    offsets = {AT: offset}
    return compare_round({AT: replicas}, offsets), offsets


def test_what_all_replicas_have_is_compared() -> None:
    log = batch(0) + batch(2)
    lag, offsets = round_of({1: ReplicaRecords(4, log), 2: ReplicaRecords(4, log)})
    assert offsets == {AT: 4}
    assert lag == Lag(0, AT, 4)


def test_the_shortest_replica_says_how_far_the_comparison_goes() -> None:
    lag, offsets = round_of(
        {1: ReplicaRecords(4, batch(0) + batch(2)), 2: ReplicaRecords(4, batch(0) + batch(2)[:70])}
    )
    assert offsets == {AT: 2}
    assert lag == Lag(2, AT, 2)


def test_nothing_above_a_high_watermark_is_compared() -> None:
    other = batch(2, b"other")
    _, offsets = round_of(
        {1: ReplicaRecords(2, batch(0) + batch(2)), 2: ReplicaRecords(2, batch(0) + other)}
    )
    assert offsets == {AT: 2}


def test_a_replica_that_cannot_be_read_lags() -> None:
    lag, offsets = round_of({1: ReplicaRecords(2, batch(0)), 2: NOTHING})
    assert offsets == {AT: 0}
    assert lag == Lag(2, AT, 0)


def test_a_partition_without_replicas_is_no_lag() -> None:
    assert round_of({}) == (Lag(-1, None, -1), {AT: 0})


def test_batches_of_other_sizes_are_a_difference() -> None:
    with pytest.raises(
        ReplicasDiffer,
        match="partition t-0: replica 1's offset 1 doesn't match replica 2's offset 2",
    ):
        round_of({1: ReplicaRecords(9, batch(0)), 2: ReplicaRecords(9, batch(0, records=3))})  # fmt: skip


def test_other_records_are_a_difference() -> None:
    with pytest.raises(
        ReplicasDiffer, match=re.escape("has unmatched checksum at offset 1; replica 1's checksum ")
    ):
        round_of({1: ReplicaRecords(9, batch(0)), 2: ReplicaRecords(9, batch(0, b"w"))})  # fmt: skip


def test_bytes_that_rotted_under_their_checksum_are_a_difference() -> None:
    rotten = bytearray(batch(0))
    rotten[-3] ^= 1
    with pytest.raises(ReplicasDiffer, match="partition t-0 has unmatched checksum at offset 1"):
        round_of({1: ReplicaRecords(9, batch(0)), 2: ReplicaRecords(9, bytes(rotten))})


def test_bytes_that_are_no_batch_are_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        round_of({1: ReplicaRecords(9, b"\xff" * 100)})


def test_the_greatest_lag_is_reported() -> None:
    assert report_line("now", Lag(3, AT, 7), 2) == (
        "now: max lag is 3 for partition t-0 at offset 7 among 2 partitions"
    )
    assert report_line("now", Lag(-1, None, -1), 0) == (
        "now: max lag is -1 for partition null at offset -1 among 0 partitions"
    )
