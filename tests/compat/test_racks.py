"""Java's consumer reads from the follower in its rack (KIP-392), alone and in one group with ours (KIP-881).

Brokers 0, 1 and 2 stand in the racks a, b and c; broker 0 leads everything. Which broker served the records is in
the brokers' own counters.
"""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.errors import ErrorCode
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import ask, until
from kavka_compat.clusters import RunningCluster, run_kavka_cluster
from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

LEADER, IN_B, IN_C = 0, 1, 2
RECORDS, SIZE = 500, 1000
_RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
_SETTINGS = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "group.initial.rebalance.delay.ms": "0",
    "kavka.metrics.port": "0",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with run_kavka_cluster(tmp_path_factory.mktemp("racks"), settings=_SETTINGS) as running:
        # librdkafka never describes a group without coordinator after three requests
        until(lambda: all(coordinates(broker.bootstrap) for broker in running.brokers))
        yield running


def coordinates(address: str) -> bool:
    """Return whether a broker knows the coordinators of groups; the first request creates their topic."""
    response = ask(address, FindCoordinatorRequest(key="any", key_type=0), 3)
    return bool(response.error_code == ErrorCode.NONE)


@pytest.fixture(params=[pytest.param("3.9", marks=pytest.mark.long), "4.1"])
def java(request: pytest.FixtureRequest) -> ApacheKafka:
    return ApacheKafka(request.param)


def create(cluster: RunningCluster, topic: str, assignment: Sequence[list[int]]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(topic, len(assignment), replica_assignment=list(assignment))
    admin.create_topics([new])[topic].result(30)
    cluster.wait_until_known(topic)


def fill(cluster: RunningCluster, topic: str, partitions: int, records: int = RECORDS) -> None:
    """Write to each partition; every replica in sync has it."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
    for partition in range(partitions):
        for _ in range(records):
            producer.produce(topic, bytes(SIZE), partition=partition)
    assert producer.flush(60) == 0


def written(cluster: RunningCluster, topic: str, *partitions: int) -> int:
    """Return how many bytes the leader's logs of partitions hold."""
    home = cluster.brokers[LEADER].log_directory.parent
    logs = [log for number in partitions for log in home.glob(f"*/{topic}-{number}/*.log")]
    return sum(log.stat().st_size for log in logs)


def served(cluster: RunningCluster, topic: str) -> list[int]:
    """Return how many bytes of a topic each broker has sent to consumers, as it says itself."""
    counts = []
    for broker in cluster.brokers:
        with urllib.request.urlopen(broker.metrics_url, timeout=60) as response:
            page = response.read().decode()
        name = "kafka_server_brokertopicmetrics_bytesout_total"
        count = re.search(rf'^{name}{{topic="{topic}"}} (\S+)$', page, re.MULTILINE)
        counts.append(0 if count is None else int(count[1]))
    return counts


def arguments(cluster: RunningCluster, topic: str, rack: str) -> list[str]:
    """Return the arguments of a console consumer, Java's or kavka's, that reads a topic from its beginning."""
    return [
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--from-beginning"),
        *("--consumer-property", f"client.rack={rack}"),
    ]


@pytest.mark.parametrize(("rack", "source"), [("b", IN_B), ("c", IN_C), ("elsewhere", LEADER)])
def test_javas_consumer_reads_in_its_rack(
    cluster: RunningCluster, java: ApacheKafka, fresh_name: str, rack: str, source: int
) -> None:
    create(cluster, fresh_name, [[LEADER, IN_B, IN_C]])
    fill(cluster, fresh_name, 1)
    words = arguments(cluster, fresh_name, rack)
    read = java.check("kafka-console-consumer", *words, "--max-messages", str(RECORDS))
    assert len(read.lines) == RECORDS
    everything = written(cluster, fresh_name, 0)
    assert everything > RECORDS * SIZE
    assert served(cluster, fresh_name) == [everything * (at == source) for at in range(3)]


@pytest.mark.parametrize("first", ["java", "ours"])
def test_java_and_we_share_a_topic_by_racks_whichever_assigns(
    cluster: RunningCluster, java: ApacheKafka, fresh_name: str, tmp_path: Path, first: str
) -> None:
    """Each gets the two partitions of its rack, which do not stand in line, and reads them there.

    The first member leads the group: its assignor decides for both.
    """
    topic, near = fresh_name, {"java": [0, 3], "ours": [1, 2]}
    create(cluster, topic, [[LEADER, n] for n in (IN_B, IN_C, IN_C, IN_B)])
    of_java = arguments(cluster, topic, "b") + membership(topic, "java")
    of_us = arguments(cluster, topic, "c") + membership(topic, "ours")
    commands = {
        "java": java.command("kafka-console-consumer", of_java),
        "ours": kavka_command("console-consumer", *of_us),
    }
    members: dict[str, Running] = {}
    try:
        for name in sorted(near, key=first.__ne__):
            members[name] = Running(commands[name], tmp_path / f"{name}.out")
            until(lambda: assigned(cluster, topic).keys() == members.keys())
        assert assigned(cluster, topic) == near
        # The fetch that the first had in progress when it still had all four ends with a first record.
        fill(cluster, topic, 4, 1)
        until(lambda: shown(members) == {name: dict.fromkeys(near[name], 1) for name in near})
        before = [*served(cluster, topic), *(written(cluster, topic, *near[name]) for name in near)]
        fill(cluster, topic, 4)
        all_shown = {name: dict.fromkeys(near[name], 1 + RECORDS) for name in near}
        until(lambda: shown(members) == all_shown)
    finally:
        for member in members.values():
            member.kill()
    after = [*served(cluster, topic), *(written(cluster, topic, *near[name]) for name in near)]
    by_leader, by_b, by_c, in_b, in_c = (
        now - then for now, then in zip(after, before, strict=True)
    )
    assert [by_leader, by_b, by_c] == [0, in_b, in_c]
    assert in_b > 2 * RECORDS * SIZE


def membership(group: str, name: str) -> list[str]:
    """Return what makes a console consumer a member that shows the partition of each record."""
    settings = (f"client.id={name}", f"partition.assignment.strategy={_RANGE}")
    return [
        *("--group", group, "--property", "print.partition=true"),
        *(word for setting in settings for word in ("--consumer-property", setting)),
    ]


def assigned(cluster: RunningCluster, group: str) -> dict[str, list[int]]:
    """Return the partitions of each member of a group that is stable, by the member's client id."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found = admin.describe_consumer_groups([group])[group].result(30)
    if found.state is not ConsumerGroupState.STABLE:
        return {}
    return {
        member.client_id: sorted(
            topic_partition.partition for topic_partition in member.assignment.topic_partitions
        )
        for member in found.members
    }


def shown(members: Mapping[str, Running]) -> dict[str, dict[int, int]]:
    """Return how many records of each partition each member has shown."""
    counts: dict[str, dict[int, int]] = {}
    for name, member in members.items():
        assert member.alive(), member.text()
        numbers = re.findall(r"^Partition:(\d+)\t", member.text(), re.MULTILINE)
        counts[name] = dict(Counter(map(int, numbers)))
    return counts
