"""The checks of topic creation and growth, and the placement of replicas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.core.controller.placement import place_replicas
from kavka.core.controller.topics import (
    NewTopic,
    Shape,
    TopicRefusal,
    check_growth,
    check_new_name,
    check_new_topic,
)
from kavka.errors import ErrorCode


def asked(
    name: str = "t",
    partitions: int = 1,
    factor: int = 1,
    assignment: dict[int, list[int]] | None = None,
) -> NewTopic:
    return NewTopic(name, partitions, factor, assignment or {}, {})


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a\n"])
def test_illegal_names_are_refused(name: str) -> None:
    refusal = check_new_name(name, ())
    assert refusal is not None
    assert refusal.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "a" * 249])
def test_legal_names_are_taken(name: str) -> None:
    assert check_new_name(name, ()) is None


def test_names_that_differ_in_dots_and_underscores_collide() -> None:
    refusal = check_new_name("a.b", ["a_b"])
    assert refusal == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic 'a.b' collides with existing topics: a_b",
    )


def test_an_existing_topic_is_refused() -> None:
    assert check_new_name("t", ["t"]) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic 't' already exists.",
    )


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (asked(partitions=0), ErrorCode.INVALID_PARTITIONS),
        (asked(partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (asked(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (asked(factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (asked(assignment={0: [0]}), ErrorCode.INVALID_REQUEST),
        (
            asked(partitions=-1, factor=-1, assignment={1: [0]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            asked(partitions=-1, factor=-1, assignment={0: [7]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            asked(partitions=-1, factor=-1, assignment={0: [0, 0]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (asked(partitions=-1, factor=-1, assignment={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_kafka_refuses_is_refused(topic: NewTopic, code: ErrorCode) -> None:
    outcome = check_new_topic(topic, (), [0], 1, 1)
    assert isinstance(outcome, TopicRefusal)
    assert outcome.code is code


def test_minus_one_takes_the_brokers_defaults() -> None:
    assert check_new_topic(asked(partitions=-1, factor=-1), (), [0, 1], 6, 2) == Shape(6, 2, {})


def test_a_topic_cannot_shrink_or_stay() -> None:
    present = {0: [0], 1: [0]}
    for count in (1, 2):
        outcome = check_growth("t", present, count, None, [0])
        assert isinstance(outcome, TopicRefusal)
        assert outcome.code is ErrorCode.INVALID_PARTITIONS


def test_growth_takes_the_assignments_that_are_given() -> None:
    assert check_growth("t", {0: [0]}, 2, [[1]], [0, 1]) == Shape(1, 1, {1: [1]})
    outcome = check_growth("t", {0: [0]}, 3, [[1]], [0, 1])
    assert isinstance(outcome, TopicRefusal)


def test_placement_is_kafkas() -> None:
    placed = place_replicas(range(5), 10, 3, start=0, shift=0)
    assert placed[:7] == [
        [0, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [3, 4, 0],
        [4, 0, 1],
        [0, 2, 3],
        [1, 3, 4],
    ]


@given(st.integers(1, 7), st.integers(1, 40), st.data())
def test_replicas_are_distinct_and_leaders_are_balanced(
    brokers: int, partitions: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, brokers))
    start, shift = data.draw(st.integers(0, brokers)), data.draw(st.integers(0, brokers))
    placed = place_replicas(range(brokers), partitions, factor, start=start, shift=shift)
    assert all(len(set(replicas)) == factor for replicas in placed)
    leaders = [sum(1 for replicas in placed if replicas[0] == broker) for broker in range(brokers)]
    assert max(leaders) - min(leaders) <= 1
