"""An unclean election loses what the durability page says, and nothing else: Apache Kafka's brokers, then ours.

A follower misses records that the leader acknowledges alone, and only the follower is left:

    leader 0     | kept kept kept | lost lost lost lost        killed
    follower 1   | kept kept kept |                            returns, and is not elected
                 ... until an administrator asks for it:
    leader 1     | kept kept kept | new new
    follower 0   | kept kept kept | new new                    returns, and is cut
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from kavka_compat.apache import ApacheKafka, Finished
from kavka_compat.asking import until
from kavka_compat.mixed import Kind, MixedCluster, State
from kavka_compat.ours import kavka_command
from kavka_compat.served import run_served
from kavka_compat.traffic import create, produce

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

LEADER, FOLLOWER, WITNESS = 0, 1, 2
KEPT = [b"kept %d" % number for number in range(300)]
LOST = [b"lost %d, and longer" % number for number in range(200)]
NEW = [b"new %d" % number for number in range(20)]

Elect = Callable[[str], Finished]
"""Ask for an election of a type, `preferred` or `unclean`."""


@pytest.fixture(
    scope="module", params=[pytest.param(Kind.APACHE, marks=pytest.mark.long), Kind.KAVKA], ids=str
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    directory = tmp_path_factory.mktemp("unclean")
    with run_served(directory / "registry", {"tickTime": "500"}) as registry:
        kinds = dict.fromkeys((LEADER, FOLLOWER, WITNESS), request.param)
        running = MixedCluster(directory, registry.connect, kinds)
        running.open_registry()
        try:
            running.start()
            yield running
        finally:
            running.abandon()
            running.close_registry()


@pytest.fixture(params=[pytest.param("3.9", marks=pytest.mark.long), "4.1", "kavka"])
def elect(cluster: MixedCluster, fresh_name: str, request: pytest.FixtureRequest) -> Elect:
    """Kafka's `kafka-leader-election` of both releases, and `kavka leader-election`."""

    def run(election: str) -> Finished:
        at = ("--bootstrap-server", f"{cluster.address(FOLLOWER)},{cluster.address(WITNESS)}")
        words = (*at, "--election-type", election, "--topic", fresh_name, "--partition", "0")
        if request.param != "kavka":
            return ApacheKafka(request.param).tool("kafka-leader-election", *words)
        command = kavka_command("leader-election", *words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


def state(cluster: MixedCluster, topic: str) -> State:
    found = cluster.state(topic, 0)
    assert found is not None
    return found


def read(cluster: MixedCluster, topic: str) -> list[bytes]:
    """Return all that consumers can read, whose offsets begin with 0 and leave none out."""
    partition, values = TopicPartition(topic, 0, 0), list[bytes]()
    servers = f"{cluster.address(FOLLOWER)},{cluster.address(WITNESS)}"
    settings = {"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False}
    with Consumer({**settings, "enable.partition.eof": True}) as consumer:
        consumer.assign([partition])
        while (message := consumer.poll(60)) is not None and message.error() is None:
            assert message.offset() == len(values)
            values.append(message.value())
        assert message is not None, f"nothing after {len(values)} records"
        assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
        assert consumer.get_watermark_offsets(partition, timeout=30) == (0, len(values))
    return values


def test_what_only_the_dead_leader_has_is_lost_by_an_unclean_election(
    cluster: MixedCluster, elect: Elect, fresh_name: str
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    create(cluster, admin, fresh_name, [[LEADER, FOLLOWER]], **{"min.insync.replicas": "1"})
    produce(cluster, fresh_name, 0, KEPT)
    cluster.stop(FOLLOWER)
    held = cluster.log_bytes(FOLLOWER, fresh_name, 0)
    until(lambda: state(cluster, fresh_name).isr == {LEADER}, what="the leader is alone in sync")
    produce(cluster, fresh_name, 0, LOST)
    cluster.kill(LEADER)
    assert cluster.log_bytes(LEADER, fresh_name, 0).startswith(held)
    assert len(cluster.log_bytes(LEADER, fresh_name, 0)) > len(held) > 0
    until(lambda: state(cluster, fresh_name).leader == -1, what="no leader")
    until(lambda: cluster.registered() == {WITNESS}, what="the dead are forgotten")

    cluster.start(FOLLOWER)
    refused = elect("preferred")  # the controller, which knows that the follower is back, answers
    assert refused.code == 1, refused
    assert "PreferredLeaderNotAvailableException" in refused.out, refused
    before = state(cluster, fresh_name)
    assert (before.leader, before.isr) == (-1, frozenset({LEADER}))

    elected = elect("unclean")
    assert elected.code == 0, elected
    assert elected.lines == [
        f"Successfully completed leader election (UNCLEAN) for partitions {fresh_name}-0"
    ]
    after = state(cluster, fresh_name)
    assert (after.leader, after.isr) == (FOLLOWER, frozenset({FOLLOWER}))
    assert after.leader_epoch > before.leader_epoch
    assert read(cluster, fresh_name) == KEPT
    assert cluster.log_bytes(FOLLOWER, fresh_name, 0) == held
    produce(cluster, fresh_name, 0, NEW)

    cluster.revive(LEADER)
    cluster.wait_in_sync(fresh_name)
    assert state(cluster, fresh_name).leader == FOLLOWER
    cluster.assert_equal_logs(fresh_name)
    left = cluster.log_bytes(LEADER, fresh_name, 0)
    assert left.startswith(held)
    assert b"lost" not in left
    assert read(cluster, fresh_name) == KEPT + NEW
