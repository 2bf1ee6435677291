"""Replicas are spread over brokers, and over racks, as Kafka's; and over machines, as Kafka's are not."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kavka.core.controller.placement import alternate_racks, machine_of, place_replicas

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


# Machines

TWO_MACHINES = {0: "a", 1: "a", 2: "b", 3: "b"}

factors, turns = st.integers(1, 5), st.integers(0, 11)
partition_counts = st.integers(1, 30)
sites = st.lists(
    st.tuples(st.sampled_from("rst"), st.sampled_from("abcd")), min_size=1, max_size=10
)
"""The rack, and the machine within the rack, of each broker."""


def doubled(replicas: list[int], machines: dict[int, str]) -> bool:
    """Return whether two replicas share a machine."""
    return len({machines[broker] for broker in replicas}) < len(replicas)


def test_followers_that_share_the_leaders_machine_are_exchanged() -> None:
    kafkas = place_replicas(range(4), 4, 2, start=0, shift=0)
    assert kafkas == [[0, 1], [1, 2], [2, 3], [3, 0]]
    placed = place_replicas(range(4), 4, 2, start=0, shift=0, machines=TWO_MACHINES)
    assert placed == [[0, 3], [1, 2], [2, 1], [3, 0]]


def test_a_machine_takes_a_second_replica_when_every_machine_has_one() -> None:
    machines = {0: "a", 1: "a", 2: "a", 3: "b"}
    placed = place_replicas(range(4), 4, 3, start=0, shift=0, machines=machines)
    assert all(3 in replicas for replicas in placed)
    assert placed[1:] == [[1, 2, 3], [2, 3, 0], [3, 0, 1]]


def test_a_broker_of_unknown_machine_has_one_of_its_own() -> None:
    machines = {0: "a", 1: "a"}
    placed = place_replicas(range(3), 1, 2, start=0, shift=0, machines=machines)
    assert placed == [[0, 2]]


def test_a_rack_that_holds_one_machine_does_not_keep_the_others_empty() -> None:
    racks = {0: "r", 1: "r", 2: "s", 3: "s"}
    machines = {0: "a", 1: "a", 2: "b", 3: "c"}
    for start in range(4):
        [replicas] = place_replicas(
            range(4), 1, 3, start=start, shift=0, racks=racks, machines=machines
        )
        assert {machines[broker] for broker in replicas} == {"a", "b", "c"}


def test_racks_come_before_machines() -> None:
    racks, machines = {0: "r", 1: "s", 2: "r"}, {0: "a", 1: "a", 2: "b"}
    [replicas] = place_replicas(range(3), 1, 2, start=0, shift=0, racks=racks, machines=machines)
    assert replicas == [0, 1]


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=10),
    factors,
    partition_counts,
    turns,
    turns,
)
def test_a_machine_has_two_replicas_only_when_none_is_without(
    names: list[str], factor: int, partitions: int, start: int, shift: int
) -> None:
    machines = dict(enumerate(names))
    assume(factor <= len(names))
    kafkas = place_replicas(range(len(names)), partitions, factor, start=start, shift=shift)
    placed = place_replicas(
        range(len(names)), partitions, factor, start=start, shift=shift, machines=machines
    )
    for replicas, as_kafka in zip(placed, kafkas, strict=True):
        assert len(set(replicas)) == factor
        assert len({machines[b] for b in replicas}) == min(factor, len(set(names)))
        assert replicas[0] == as_kafka[0]
        if not doubled(as_kafka, machines):
            assert replicas == as_kafka


@given(sites, factors, partition_counts, turns, turns)
def test_machines_are_spread_over_within_the_choice_of_racks(
    where: list[tuple[str, str]], factor: int, partitions: int, start: int, shift: int
) -> None:
    racks = {broker: rack for broker, (rack, _) in enumerate(where)}
    machines = {broker: rack + machine for broker, (rack, machine) in enumerate(where)}
    assume(factor <= len(where))
    placed = place_replicas(
        range(len(where)),
        partitions,
        factor,
        start=start,
        shift=shift,
        racks=racks,
        machines=machines,
    )
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert len({racks[b] for b in replicas}) == min(factor, len(set(racks.values())))
        assert len({machines[b] for b in replicas}) == min(factor, len(set(machines.values())))


@given(
    st.lists(st.tuples(st.sampled_from("rstu"), st.sampled_from("abcd")), min_size=1, max_size=8),
    factors,
    turns,
    turns,
)
def test_no_choice_of_followers_in_as_many_racks_reaches_more_machines(
    where: list[tuple[str, str]], factor: int, start: int, shift: int
) -> None:
    """Machines and racks may cross: held against all choices."""
    assume(factor <= len(where))
    brokers = range(len(where))
    racks = {broker: rack for broker, (rack, _) in enumerate(where)}
    machines = {broker: machine for broker, (_, machine) in enumerate(where)}
    rack_count = min(factor, len(set(racks.values())))
    for replicas in place_replicas(
        brokers, len(where), factor, start=start, shift=shift, racks=racks, machines=machines
    ):
        choices = [
            {replicas[0], *followers}
            for followers in combinations(set(brokers) - {replicas[0]}, factor - 1)
        ]
        assert len({racks[b] for b in replicas}) == rack_count
        assert len({machines[b] for b in replicas}) == max(
            len({machines[b] for b in choice})
            for choice in choices
            if len({racks[b] for b in choice}) == rack_count
        )


def test_a_replica_makes_room_on_its_machine_for_one_that_has_nowhere_else_to_go() -> None:
    where = {0: "td", 1: "re", 2: "tc", 3: "tb", 4: "ue", 5: "rc", 6: "sc", 7: "rd"}
    racks = {broker: at[0] for broker, at in where.items()}
    machines = {broker: at[1] for broker, at in where.items()}
    for start in range(8):
        for shift in range(8):
            [replicas] = place_replicas(
                range(8), 1, 5, start=start, shift=shift, racks=racks, machines=machines
            )
            assert {racks[b] for b in replicas} == set("rstu")
            assert {machines[b] for b in replicas} == set("bcde")


@given(st.integers(1, 8), factors, partition_counts, turns, turns, st.booleans(), st.booleans())
def test_one_machine_or_one_for_each_broker_is_kafkas(
    count: int, factor: int, partitions: int, start: int, shift: int, apart: bool, in_racks: bool
) -> None:
    assume(factor <= count)
    racks = {broker: "rst"[broker % 3] for broker in range(count)} if in_racks else None
    machines = {broker: str(broker) if apart else "a" for broker in range(count)}
    kafkas, placed = (
        place_replicas(
            range(count),
            partitions,
            factor,
            start=start,
            shift=shift,
            racks=racks,
            machines=known,
        )
        for known in (None, machines)
    )
    assert placed == kafkas


@given(st.permutations("aabbcc"), st.integers(1, 3), st.integers(1, 100), turns, turns)
def test_brokers_of_like_machines_have_like_loads(
    names: list[str], factor: int, partitions: int, start: int, shift: int
) -> None:
    machines = dict(enumerate(names))
    placed = place_replicas(
        range(6), partitions, factor, start=start, shift=shift, machines=machines
    )
    loads = Counter(broker for replicas in placed for broker in replicas)
    assert max(loads.values()) - min(loads[broker] for broker in range(6)) <= 3
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[broker] for broker in range(6)) <= 1


@pytest.mark.parametrize("names", ["aabb", "abab", "aaabbbccc", "abcabcabc"])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_many_topics_of_one_partition_are_even_too(names: str, factor: int) -> None:
    count = len(names)
    machines = dict(enumerate(names))
    loads = Counter(
        broker
        for start in range(count)
        for shift in range(count)
        for replicas in place_replicas(
            range(count), 1, factor, start=start, shift=shift, machines=machines
        )
        for broker in replicas
    )
    assert set(loads.values()) == {count * factor}


def test_names_of_the_loopback_are_one_machine_and_case_makes_none() -> None:
    assert {machine_of(host) for host in ("localhost", "127.0.0.1", "127.0.1.1", "::1")} == {
        "localhost"
    }
    assert machine_of("Kafka1.Example") == machine_of("kafka1.example")
    assert machine_of("10.0.0.1") != machine_of("10.0.0.2")
