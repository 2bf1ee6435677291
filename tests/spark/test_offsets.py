"""Offsets of a query."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from kavka.ids import TopicPartition
from kavka.spark.offsets import OffsetRange, from_json, limit_offsets, split_ranges, to_json

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b.c", "d"]), st.integers(0, 4))
RANGES = st.dictionaries(
    PARTITIONS, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=6
)


@given(st.dictionaries(PARTITIONS, st.integers(0, 2**62)))
def test_offsets_survive_their_json(offsets: dict[TopicPartition, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


def test_the_json_does_not_depend_on_the_order_of_insertion() -> None:
    assert json.dumps(to_json({T0: 1, T1: 2})) == json.dumps(to_json({T1: 2, T0: 1}))
    assert to_json({T1: 2, T0: 1}) == {"t": {"0": 1, "1": 2}}


def test_a_limit_is_shared_in_proportion() -> None:
    assert limit_offsets({T0: 0, T1: 100}, {T0: 900, T1: 200}, 100) == {T0: 90, T1: 110}
    assert limit_offsets({T0: 0, T1: 0}, {T0: 1_000_000, T1: 1}, 10) == {T0: 9, T1: 1}


def test_a_partition_that_ends_before_it_starts_is_not_hidden_by_a_limit() -> None:
    assert limit_offsets({T0: 500, T1: 0}, {T0: 3, T1: 900}, 10) == {T0: 3, T1: 10}


def test_a_limit_above_what_is_new_takes_all() -> None:
    assert limit_offsets({T0: 5, T1: 5}, {T0: 9, T1: 5}, 4) == {T0: 9, T1: 5}


@given(RANGES, st.integers(1, 100))
def test_a_limit_always_moves_and_never_overshoots(
    ranges: dict[TopicPartition, tuple[int, int]], most: int
) -> None:
    start = {partition: one[0] for partition, one in ranges.items()}
    end = {partition: one[0] + one[1] for partition, one in ranges.items()}
    taken = limit_offsets(start, end, most)
    assert all(start[partition] <= taken[partition] <= end[partition] for partition in end)
    assert sum(taken.values()) - sum(start.values()) <= most + len(end)
    assert taken != start or end == start


def test_a_range_is_a_task_and_empty_ranges_are_none() -> None:
    ranges = [OffsetRange("t", 1, 5, 9), OffsetRange("t", 0, 3, 3), OffsetRange("t", 2, 9, 4)]
    assert split_ranges(ranges, None, None) == [OffsetRange("t", 1, 5, 9)]


def test_large_ranges_are_cut_for_more_tasks() -> None:
    ranges = [OffsetRange("t", 0, 0, 300), OffsetRange("t", 1, 0, 100)]
    assert split_ranges(ranges, 4, None) == [
        OffsetRange("t", 0, 0, 100), OffsetRange("t", 0, 100, 200), OffsetRange("t", 0, 200, 300),
        OffsetRange("t", 1, 0, 100),
    ]  # fmt: skip
    assert max(one.end - one.start for one in split_ranges(ranges, None, 64)) <= 64


@given(RANGES, st.none() | st.integers(1, 20), st.none() | st.integers(1, 50))
def test_tasks_cover_each_offset_once(
    ranges: dict[TopicPartition, tuple[int, int]], parts: int | None, records: int | None
) -> None:
    whole = [OffsetRange(*partition, one[0], one[0] + one[1]) for partition, one in ranges.items()]
    tasks = split_ranges(whole, parts, records)
    offsets = [(one.topic, one.partition, n) for one in tasks for n in range(one.start, one.end)]
    assert sorted(offsets) == sorted(
        (one.topic, one.partition, n) for one in whole for n in range(one.start, one.end)
    )
    assert all(one.end > one.start for one in tasks)
    assert records is None or all(one.end - one.start <= records for one in tasks)
