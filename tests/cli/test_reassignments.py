"""Plans of moves, their states and throttles: what `kavka reassign-partitions` reads, reckons and prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.cli.commands.reassign_partitions import move_line
from kavka.cli.reassignment.plans import (
    Plan,
    check_executable,
    generate,
    plan_json,
    read_brokers,
    read_plan,
    read_topics,
)
from kavka.cli.reassignment.progress import LogDirState, MoveState, partition_lines
from kavka.cli.text.failures import CommandFailed
from kavka.client.admin.reassignments import Reassignment
from kavka.client.admin.replica_log_dirs import Replica, ReplicaLogDirs
from kavka.client.admin.replication_throttles import Move, moves_of, throttled_replicas
from kavka.client.metadata import BrokerAddress
from kavka.ids import BrokerId, TopicPartition
from kavka.net.clock import SystemRandom

AT = TopicPartition("t", 0)
OTHER = TopicPartition("t", 10)


def written(directory: Path, document: object) -> str:
    path = directory / "plan.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


# Reading


def test_a_plan_names_replicas_and_directories(tmp_path: Path) -> None:
    parts = [
        {"topic": "t", "partition": 0, "replicas": [2, 1], "log_dirs": ["any", "/one"]},
        {"topic": "t", "partition": 10, "replicas": [0]},
    ]
    plan = read_plan(written(tmp_path, {"version": 1, "partitions": parts}))
    assert plan.targets == {AT: [2, 1], OTHER: [0]}
    assert plan.log_dirs == {Replica("t", 0, 1): "/one"}
    check_executable(plan)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ("{", "is not a valid JSON"),
        ("[" * 100_000, "is not a valid JSON"),
        ([], "The input string is not a valid JSON"),
        ({"version": 3}, "Not supported version field value 3"),
        ({"partitions": {}}, "Expected a list for `partitions`, received {}"),
        ({"partitions": [{}]}, "No such field exists: `topic`"),
        ({"partitions": [[]]}, "No such field exists: `topic`"),
        ({"partitions": [{"topic": 1}]}, "Expected `String` value, received 1"),
        ({"partitions": [{"topic": "t"}]}, "No such field exists: `partition`"),
        ({"partitions": [{"topic": "t", "partition": True}]}, "Expected `Integer` value, received true"),
        ({"partitions": [{"topic": "t", "partition": 2**31}]}, "Expected `Integer` value, received 2147483648"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": 1}]}, "Expected a list for `replicas`, received 1"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": [1.5]}]}, "Expected `Integer` value, received 1.5"),
        (
            {"partitions": [{"topic": "t", "partition": 0, "replicas": [2, 1], "log_dirs": ["any"]}]},
            "Size of replicas list [2, 1] is different from size of log dirs list [any] for partition t-0",
        ),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be_read_is_refused(
    tmp_path: Path, document: object, sentence: str
) -> None:
    with pytest.raises(CommandFailed) as refused:
        read_plan(written(tmp_path, document))
    assert sentence in str(refused.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandFailed, match="Unable to read file /nowhere"):
        read_plan("/nowhere")


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ([], "Partition reassignment list cannot be empty"),
        ([(AT, [])], "Partition replica list cannot be empty"),
        ([(AT, [1]), (OTHER, [1]), (AT, [2])], "contains duplicate topic partitions: t-0"),
        (
            [(AT, [1, 1, 2, 2]), (OTHER, [3, 3])],
            "may not contain duplicate entries: t-0 contains multiple entries for 1,2. t-10 contains multiple "
            "entries for 3",
        ),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(
    entries: list[tuple[TopicPartition, list[int]]], sentence: str
) -> None:
    with pytest.raises(CommandFailed) as refused:
        check_executable(Plan(entries, {}))
    assert sentence in str(refused.value)


def test_topics_and_brokers_are_named_once(tmp_path: Path) -> None:
    assert read_topics(written(tmp_path, {"topics": [{"topic": "a"}, {"topic": "b"}]})) == [
        "a",
        "b",
    ]
    assert read_brokers("2,0,1") == [2, 0, 1]
    with pytest.raises(CommandFailed, match=r"duplicate entries: \[a\]"):
        read_topics(written(tmp_path, {"topics": [{"topic": "a"}] * 2}))
    with pytest.raises(CommandFailed, match=r"duplicate entries: \[1\]"):
        read_brokers("1,0,1")
    with pytest.raises(CommandFailed, match='For input string: "x"'):
        read_brokers("0,x")
    with pytest.raises(CommandFailed, match='For input string: "1_0"'):
        read_brokers("0,1_0")


# Writing and generating


def test_a_plan_is_written_sorted_with_its_directories() -> None:
    text = plan_json({OTHER: [0], AT: (2, 1)}, {Replica("t", 0, 1): "/one"})
    assert text == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1],"log_dirs":["any","/one"]},'
        '{"topic":"t","partition":10,"replicas":[0],"log_dirs":["any"]}]}'
    )


def brokers(*racks: str | None) -> list[BrokerAddress]:
    return [BrokerAddress(BrokerId(i), "host", 9092, rack) for i, rack in enumerate(racks)]


@given(st.integers(1, 12), st.integers(1, 3))
def test_a_generated_plan_spreads_replicas_over_racks(partitions: int, factor: int) -> None:
    current = {TopicPartition("t", number): [9] * factor for number in range(partitions)}
    hosts = brokers("a", "a", "b", "b", "c", "c")
    proposed = generate(current, hosts, True, SystemRandom())
    assert list(proposed) == list(current)
    for replicas in proposed.values():
        assert len({hosts[broker].rack for broker in replicas}) == factor
    leaders = [replicas[0] for replicas in proposed.values()]
    assert max(map(leaders.count, range(6))) - min(map(leaders.count, range(6))) <= 1


def test_racks_are_known_of_all_brokers_or_of_none() -> None:
    current = {AT: (0, 1)}
    with pytest.raises(CommandFailed, match="Not all brokers have rack information"):
        generate(current, brokers("a", None), True, SystemRandom())
    for hosts, rack_aware in [(brokers("a", None), False), (brokers(None, None), True)]:
        [replicas] = generate(current, hosts, rack_aware, SystemRandom()).values()
        assert sorted(replicas) == [0, 1]


@pytest.mark.parametrize(
    ("racks", "rack_aware"), [((None,) * 4, True), (("a", None) * 2, False), (("r",) * 4, True)]
)
def test_a_generated_plan_puts_replicas_on_several_machines(
    racks: tuple[str | None, ...], rack_aware: bool
) -> None:
    current = {TopicPartition("t", number): [9, 8] for number in range(12)}
    hosts = [
        BrokerAddress(BrokerId(i), "one" if i < 2 else "two", 9092 + i, rack)
        for i, rack in enumerate(racks)
    ]
    for replicas in generate(current, hosts, rack_aware, SystemRandom()).values():
        assert {hosts[broker].host for broker in replicas} == {"one", "two"}


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(CommandFailed, match="only 1 broker"):
        generate({AT: (0, 1)}, brokers(None), True, SystemRandom())


# States


def test_progress_of_partitions_is_printed() -> None:
    states = {
        OTHER: MoveState((0, 1), (1, 2), True),
        AT: MoveState((1,), (1,), True),
        TopicPartition("a", 0): MoveState((1, 2), (2,), False),
    }
    assert partition_lines(states) == [
        "Status of partition reassignment:",
        "Reassignment of partition a-0 is still in progress.",
        "Reassignment of partition t-0 is completed.",
        "There is no active reassignment of partition t-10, but replica set is 0,1 rather than 1,2.",
    ]


@pytest.mark.parametrize(
    ("found", "is_done", "sentence"),
    [
        (
            ReplicaLogDirs(),
            True,
            "Partition t-0 is not found in any live log dir on broker 1. There is likely an offline log directory on "
            "the broker.",
        ),
        (ReplicaLogDirs("/one", 0, "/two", 5), False, "Reassignment of replica t-0-1 is still in progress."),
        (
            ReplicaLogDirs("/one", 0, "/three", 5),
            False,
            "Partition t-0 on broker 1 is being moved to log dir /three instead of /two.",
        ),
        (ReplicaLogDirs("/two", 0), True, "Reassignment of replica t-0-1 completed successfully."),
        (
            ReplicaLogDirs("/one", 0),
            True,
            "Partition t-0 on broker 1 is not being moved from log dir /one to /two.",
        ),
    ],
)  # fmt: skip
def test_progress_of_replicas_is_printed(
    found: ReplicaLogDirs, is_done: bool, sentence: str
) -> None:
    state = LogDirState(found, "/two")
    assert state.is_done is is_done
    assert state.description(Replica("t", 0, 1)) == sentence


def test_a_move_under_way_is_listed_with_what_it_adds_and_removes() -> None:
    assert move_line(AT, Reassignment((2, 1, 0), (2,), (0,))) == (
        "t-0: replicas: 2,1,0. adding: 2. removing: 0."
    )
    assert move_line(AT, Reassignment((1, 0), (), (0,))) == "t-0: replicas: 1,0. removing: 0."


# Throttles


def test_sources_and_destinations_are_held_back() -> None:
    under_way = {OTHER: Reassignment((3, 0, 1), (3,), (0,))}
    moves = moves_of(under_way, {AT: [2, 1]}, {AT: (0, 1)})
    assert moves == {
        OTHER: Move(frozenset({0, 1}), frozenset({3})),
        AT: Move(frozenset({0, 1}), frozenset({2})),
    }
    assert throttled_replicas(moves) == {"t": ("0:0,0:1,10:0,10:1", "0:2,10:3")}


def test_a_move_that_changes_keeps_its_sources() -> None:
    under_way = {AT: Reassignment((2, 0, 1), (2,), (0,))}
    moves = moves_of(under_way, {AT: [3, 1]}, {AT: (2, 0, 1)})
    assert moves == {AT: Move(frozenset({0, 1}), frozenset({3}))}
