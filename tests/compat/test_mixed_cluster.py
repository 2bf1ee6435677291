"""Two brokers of Apache Kafka 3.9 and two of ours in one cluster: each leads, follows and controls the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import (
    ElectionType,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from kavka.errors import ErrorCode
from kavka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import until
from kavka_compat.mixed import Kind, MixedCluster, run_mixed
from kavka_compat.our_tools import our_tool
from kavka_compat.traffic import (
    assert_nothing_is_wrong,
    committed,
    consume,
    create,
    group_on,
    load_on,
    produce,
)

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

KINDS = {0: Kind.APACHE, 1: Kind.KAVKA, 2: Kind.APACHE, 3: Kind.KAVKA}
ASSIGNMENT = [[0, 1, 3], [1, 0, 2], [2, 3, 1], [3, 2, 0]]
"""Each broker leads one partition, and each kind follows the other."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """All four, with the topic of the groups in place."""
    with run_mixed(tmp_path_factory.mktemp("mixed"), KINDS) as running:
        create(running, AdminClient({"bootstrap.servers": running.bootstrap}), "first", [[0, 1]])
        produce(running, "first", 0, [b"one"])
        consume(running, "first", "first", 1)
        running.wait_in_sync("__consumer_offsets")
        yield running


@pytest.fixture
def admin(cluster: MixedCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture(params=list(Kind))
def ruled(cluster: MixedCluster, request: pytest.FixtureRequest) -> MixedCluster:
    """The cluster under a controller of one kind, then of the other."""
    cluster.make_controller(cluster.of(request.param)[0])
    return cluster


def perf(cluster: MixedCluster, topic: str, records: int) -> None:
    """Write with the Java producer."""
    settings = (f"bootstrap.servers={cluster.bootstrap}", "acks=all", "enable.idempotence=true")
    amount = ("--num-records", str(records), "--record-size", "100", "--throughput", "-1")
    tool = ("kafka-producer-perf-test", "--topic", topic, *amount, "--producer-props", *settings)
    said = ApacheKafka("3.9").check(*tool).lines
    assert said[-1].startswith(f"{records} records sent, "), said


def test_each_kind_leads_what_the_other_follows(
    cluster: MixedCluster, admin: AdminClient, fresh_name: str
) -> None:
    create(
        cluster,
        admin,
        fresh_name,
        ASSIGNMENT,
        **{"segment.bytes": "65536", "min.insync.replicas": "3"},
    )
    values = [f"{number}".encode() for number in range(1000)]
    for partition in range(4):
        produce(cluster, fresh_name, partition, values)
    for kind in Kind:
        group = group_on(cluster, kind, f"{fresh_name}-{kind}")
        found = consume(cluster, fresh_name, group, 4000)
        assert found == dict.fromkeys(range(4), values)
        assert committed(cluster, group) == dict.fromkeys(range(4), 1000)
    perf(cluster, fresh_name, 5000)
    for kind in Kind:
        group = group_on(cluster, kind, f"{fresh_name}-{kind}")
        found = consume(cluster, fresh_name, group, 5000)
        assert {len(value) for values in found.values() for value in values} == {100}
    assert cluster.assert_equal_logs(fresh_name) > 500_000


def refusals(cluster: MixedCluster, topic: str, size: int) -> int:
    """Send a record of a size to each partition; return how many are refused as too large."""
    errors: list[KafkaError] = []
    with Producer({"bootstrap.servers": cluster.bootstrap, "retries": 0}) as producer:
        for partition in range(4):
            producer.produce(
                topic,
                bytes(size),
                partition=partition,
                on_delivery=lambda error, _: errors.append(error),
            )
        assert producer.flush(30) == 0
    found = [error for error in errors if error is not None]
    assert {error.code() for error in found} <= {KafkaError.MSG_SIZE_TOO_LARGE}
    return len(found)


def change(admin: AdminClient, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_all_obey_a_controller_of_either_kind(
    ruled: MixedCluster, admin: AdminClient, fresh_name: str
) -> None:
    create(ruled, admin, fresh_name, ASSIGNMENT)
    controller = ruled.controller()
    assert admin.list_topics(timeout=10).controller_id == controller
    assert refusals(ruled, fresh_name, 2000) == 0
    # librdkafka sends this to the controller, which notifies the others by the registry
    change(admin, fresh_name, "max.message.bytes", "1000")
    until(lambda: refusals(ruled, fresh_name, 2000) == 4, what="each leader obeys the setting")

    grown = NewPartitions(fresh_name, 6, replica_assignment=[[0, 3, 2], [3, 0, 1]])
    admin.create_partitions([grown])[fresh_name].result(30)
    ruled.wait_in_sync(fresh_name)
    for partition in (4, 5):
        produce(ruled, fresh_name, partition, [b"one", b"two"])
    ruled.assert_equal_logs(fresh_name)

    admin.delete_topics([fresh_name])[fresh_name].result(30)
    until(lambda: ruled.node(f"/brokers/topics/{fresh_name}") is None, what="the topic is gone")
    until(
        lambda: (
            not any(
                ruled.partition_directory(n, fresh_name, p).exists()
                for n in KINDS
                for p in range(6)
            )
        ),
        what="its directories are gone",
    )
    until(lambda: ruled.children("/admin/delete_topics") == [], what="nothing is left to delete")
    assert ruled.controller() == controller


def test_settings_that_one_kind_changes_reach_the_other(
    cluster: MixedCluster, admin: AdminClient, fresh_name: str
) -> None:
    """Any broker takes such a change, writes it, and the others learn of it by the registry."""
    create(cluster, admin, fresh_name, ASSIGNMENT)
    for number, limit in ((0, "1000"), (1, "3000"), (2, "1000"), (3, "3000")):
        change = IncrementalAlterConfigsRequestConfig(
            name="max.message.bytes", config_operation=0, value=limit
        )
        topic = IncrementalAlterConfigsRequestResource(
            resource_type=2, resource_name=fresh_name, configs=[change]
        )
        asked = IncrementalAlterConfigsRequest(resources=[topic], validate_only=False)
        # a broker that has not learned of the topic yet refuses
        until(lambda number=number, asked=asked: accepts(cluster, number, asked))  # type: ignore[misc]
        wanted = 4 if limit == "1000" else 0
        until(lambda wanted=wanted: refusals(cluster, fresh_name, 2000) == wanted)  # type: ignore[misc]


def accepts(cluster: MixedCluster, number: int, asked: IncrementalAlterConfigsRequest) -> bool:
    code = cluster.ask(number, asked).responses[0].error_code
    assert code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return bool(code == ErrorCode.NONE)


def plan(directory: Path, topic: str, assignment: Mapping[int, Sequence[int]]) -> str:
    moves = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for partition, replicas in assignment.items()
    ]
    path = directory / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": moves}))
    return str(path)


Move = Callable[[str], None]


@pytest.fixture
def apache_moves(cluster: MixedCluster) -> Move:
    def move(path: str) -> None:
        kafka = ApacheKafka("3.9")
        at = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", path)
        kafka.check("kafka-reassign-partitions", *at, "--execute")

    return move


@pytest.fixture
def our_move(cluster: MixedCluster) -> Move:
    def move(path: str) -> None:
        at = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", path)
        our_tool("reassign-partitions", *at, "--execute")

    return move


def test_partitions_move_from_one_kind_to_the_other_and_back_under_load(
    ruled: MixedCluster, apache_moves: Move, our_move: Move, fresh_name: str, tmp_path: Path
) -> None:
    with load_on(ruled, fresh_name, replication_factor=2, min_insync_replicas=1) as load:
        ruled.wait_in_sync(fresh_name)
        for kind, move in ((Kind.KAVKA, apache_moves), (Kind.APACHE, our_move)):
            load.wait_for(100)
            first, second = ruled.of(kind)
            wanted = {n: [first, second] if n % 2 else [second, first] for n in range(4)}
            move(plan(tmp_path, fresh_name, wanted))
            until(lambda wanted=wanted: ruled.assignment(fresh_name) == wanted)  # type: ignore[misc]
            ruled.wait_in_sync(fresh_name)
        load.wait_for(100)
        assert_nothing_is_wrong(load.finish())
    assert ruled.assert_equal_logs(fresh_name) > 0
    for number in ruled.of(Kind.KAVKA):
        directories = [ruled.partition_directory(number, fresh_name, n) for n in range(4)]
        until(lambda found=directories: not any(path.exists() for path in found))  # type: ignore[misc]


def led_by(cluster: MixedCluster, topic: str, number: int) -> list[int]:
    states = {n: cluster.state(topic, n) for n in cluster.assignment(topic)}
    return [n for n, state in states.items() if state is not None and state.leader == number]


def prefer(cluster: MixedCluster, admin: AdminClient, topic: str) -> None:
    """Let the preferred replicas lead."""
    admin.list_topics(timeout=10)  # librdkafka asks the last controller that it knows
    partitions = [TopicPartition(topic, n) for n in cluster.assignment(topic)]
    outcome = admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30)
    allowed = {None, KafkaError.ELECTION_NOT_NEEDED}
    assert {error and error.code() for error in outcome.values()} <= allowed
    for number, replicas in cluster.assignment(topic).items():
        state = cluster.state(topic, number)
        assert state is not None
        assert state.leader == replicas[0]


@pytest.mark.parametrize(
    "victim", [Kind.KAVKA, pytest.param(Kind.APACHE, marks=pytest.mark.long)], ids=str
)
def test_a_controller_that_leads_is_killed(
    cluster: MixedCluster, admin: AdminClient, fresh_name: str, victim: Kind
) -> None:
    """The victim leads some partitions, follows others, coordinates groups and rules; then one that only obeys."""
    rules, obeys = cluster.of(victim)
    cluster.make_controller(rules)
    with load_on(cluster, fresh_name) as load:
        for number in (rules, obeys):
            cluster.wait_in_sync(fresh_name)
            prefer(cluster, admin, fresh_name)
            assert led_by(cluster, fresh_name, number)
            load.wait_for(100)
            cluster.kill(number)
            until(lambda dead=number: not led_by(cluster, fresh_name, dead))  # type: ignore[misc]
            load.wait_for(100)
            cluster.revive(number)
        cluster.wait_in_sync(fresh_name, "__consumer_offsets")
        load.wait_for(100)
        assert_nothing_is_wrong(load.finish())
    assert cluster.assert_equal_logs(fresh_name) > 0


@pytest.mark.parametrize(
    "stopped", [Kind.KAVKA, pytest.param(Kind.APACHE, marks=pytest.mark.long)], ids=str
)
def test_a_broker_that_stops_hands_over_to_the_other_kind(
    cluster: MixedCluster, admin: AdminClient, fresh_name: str, stopped: Kind
) -> None:
    (other,) = set(Kind) - {stopped}
    cluster.make_controller(cluster.of(other)[0])
    number = cluster.of(stopped)[0]
    with load_on(cluster, fresh_name) as load:
        cluster.wait_in_sync(fresh_name)
        load.wait_for(100)
        epochs = {n: cluster.state(fresh_name, n) for n in led_by(cluster, fresh_name, number)}
        assert epochs
        cluster.stop(number)
        for partition, before in epochs.items():
            after = cluster.state(fresh_name, partition)
            assert after is not None
            assert before is not None
            assert after.leader != number
            assert number not in after.isr
            assert after.leader_epoch > before.leader_epoch
        load.wait_for(100)
        cluster.start(number)
        cluster.wait_in_sync(fresh_name, "__consumer_offsets")
        load.wait_for(100)
        assert_nothing_is_wrong(load.finish())
    assert cluster.assert_equal_logs(fresh_name) > 0


def test_no_replica_out_of_sync_is_elected(
    cluster: MixedCluster, admin: AdminClient, fresh_name: str
) -> None:
    """Followers of either kind miss records, then only they are alive: the partitions wait for the others."""
    pairs = {f"{fresh_name}-{leader}": (leader, follower) for leader, follower in ((0, 3), (1, 2))}
    for topic, pair in pairs.items():
        create(cluster, admin, topic, [list(pair)])
    for _leader, follower in pairs.values():
        cluster.stop(follower)
    for topic in pairs:
        produce(cluster, topic, 0, [b"kept"])
    for leader, _follower in pairs.values():
        cluster.kill(leader)
    cluster.start(2, 3)
    until(lambda: cluster.registered() == {2, 3}, what="the dead are forgotten")
    for topic, (leader, _follower) in pairs.items():
        until(lambda topic=topic: leader_of(cluster, topic) == -1, what="no leader")  # type: ignore[misc]
        assert in_sync(cluster, topic) == {leader}
    for leader, _follower in pairs.values():
        cluster.revive(leader)
    for topic, (leader, _follower) in pairs.items():
        cluster.wait_in_sync(topic)
        assert leader_of(cluster, topic) == leader
        assert consume(cluster, topic, f"{topic}-reader", 1) == {0: [b"kept"]}
        cluster.assert_equal_logs(topic)


def leader_of(cluster: MixedCluster, topic: str) -> int | None:
    state = cluster.state(topic, 0)
    return None if state is None else state.leader


def in_sync(cluster: MixedCluster, topic: str) -> set[int] | None:
    state = cluster.state(topic, 0)
    return None if state is None else set(state.isr)
