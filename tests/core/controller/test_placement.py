"""Replicas are spread over brokers, and over racks, as Kafka's."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kavka.core.controller.placement import alternate_racks, place_replicas

RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def test_racks_alternate_in_the_order_of_brokers() -> None:
    assert alternate_racks(sorted(RACKS), RACKS) == [0, 3, 1, 5, 4, 2]


def test_every_partition_has_a_replica_in_every_rack() -> None:
    placed = place_replicas(sorted(RACKS), 6, 3, start=0, shift=0, racks=RACKS)
    assert placed == [[0, 3, 1], [3, 1, 5], [1, 5, 4], [5, 4, 2], [4, 2, 0], [2, 0, 3]]


def test_the_second_round_shifts_by_whole_racks() -> None:
    placed = place_replicas(sorted(RACKS), 12, 3, start=0, shift=0, racks=RACKS)
    assert placed[6:] == [[0, 4, 2], [3, 2, 0], [1, 0, 3], [5, 3, 1], [4, 1, 5], [2, 5, 4]]


def test_a_small_rack_does_not_hinder_many_replicas() -> None:
    placed = place_replicas([0, 1, 2], 1, 3, start=0, shift=0, racks={0: "a", 1: "a", 2: "b"})
    assert sorted(placed[0]) == [0, 1, 2]


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=9),
    st.integers(1, 9),
    st.integers(1, 30),
    st.integers(0, 8),
    st.integers(0, 8),
)
def test_replicas_differ_and_reach_as_many_racks_as_they_can(
    rack_names: list[str], factor: int, partitions: int, start: int, shift: int
) -> None:
    racks = dict(enumerate(rack_names))
    factor = min(factor, len(racks))
    placed = place_replicas(
        sorted(racks), partitions, factor, start=start, shift=shift, racks=racks
    )
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert len({racks[b] for b in replicas}) == min(factor, len(set(rack_names)))
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.get(b, 0) for b in racks) <= 1
