"""The cluster for users' tests: what can be done to it, and that nothing acknowledged is lost by it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.testing.local_cluster import REGISTRY, LocalCluster


class Writer:
    """An idempotent producer with acks=all, which remembers what was acknowledged."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.acknowledged: list[bytes] = []
        self.refused: list[Any] = []
        self._next = 0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )

    def write(self, count: int) -> None:
        """Send some records and continue."""
        for _ in range(count):
            self._producer.produce("t", b"%d" % self._next, callback=self._done)
            self._next += 1
            self._producer.poll(0)

    def finish(self) -> None:
        """Wait until everything is acknowledged."""
        assert self._producer.flush(60) == 0
        assert self.refused == []

    def _done(self, error: Any, message: Any) -> None:
        (self.refused if error else self.acknowledged).append(error or message.value())


@pytest.fixture
def cluster(kavka_cluster: LocalCluster) -> LocalCluster:
    """Three brokers with topic `t` of one partition and three replicas."""
    create(kavka_cluster)
    return kavka_cluster


def create(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic("t", 1, 3)])["t"].result(30)
    cluster.until(lambda: len(cluster.in_sync("t")) == 3)


def next_value(consumer: Consumer) -> bytes | None:
    message = consumer.poll(30)
    assert message is not None, "no record came"
    assert message.error() is None, message.error()
    return message.value()


def values(cluster: LocalCluster, count: int) -> Iterator[bytes | None]:
    """Read `count` records of `t` from its beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["t"])
    try:
        for _ in range(count):
            yield next_value(consumer)
    finally:
        consumer.close()


def check(cluster: LocalCluster, writer: Writer) -> None:
    """Everything acknowledged is there, once and in order, and the replicas are equal."""
    writer.finish()
    count = len(writer.acknowledged)
    assert list(values(cluster, count)) == writer.acknowledged
    assert writer.acknowledged == [b"%d" % number for number in range(count)]
    cluster.until_replicated("t", replicas=len(cluster.running))
    assert len({cluster.log_bytes(number, "t") for number in cluster.running}) == 1


def test_nothing_is_lost_when_the_leader_is_killed(cluster: LocalCluster) -> None:
    writer = Writer(cluster)
    writer.write(500)
    leader = cluster.leader("t")
    cluster.kill(leader)
    writer.write(500)
    writer.finish()
    cluster.start(leader)
    cluster.until(lambda: len(cluster.in_sync("t")) == 3)
    check(cluster, writer)


def test_leader_that_stood_still_gives_up_what_it_did_not_replicate(cluster: LocalCluster) -> None:
    writer = Writer(cluster)
    writer.write(200)
    writer.finish()
    leader = cluster.leader("t")
    cluster.pause(leader)
    writer.write(200)
    cluster.until(lambda: cluster.leader("t") not in (leader, -1), 30)
    cluster.resume(leader)
    writer.write(200)
    cluster.until(lambda: len(cluster.in_sync("t")) == 3, 30)
    check(cluster, writer)


@pytest.mark.parametrize("one_way", [False, True])
def test_cut_between_a_leader_and_a_follower_heals(cluster: LocalCluster, one_way: bool) -> None:
    writer = Writer(cluster)
    leader = cluster.leader("t")
    # Not the controller: a leader that cannot reach it cannot change the in-sync set.
    others = (leader, cluster.controller())
    follower = next(number for number in cluster.running if number not in others)
    cluster.cut(leader, follower, one_way=one_way)
    writer.write(200)
    cluster.until(lambda: follower not in cluster.in_sync("t"), 30)
    writer.finish()
    cluster.heal()
    cluster.until(lambda: len(cluster.in_sync("t")) == 3, 30)
    check(cluster, writer)


def test_leader_without_its_registry_is_replaced(cluster: LocalCluster) -> None:
    writer = Writer(cluster)
    writer.write(200)
    leader = cluster.leader("t")
    cluster.cut(leader, REGISTRY)
    others = [number for number in cluster.running if number != leader]
    cluster.until(lambda: cluster.leader("t", seen_by=others[0]) in others, 30)
    writer.write(200)
    cluster.heal()
    cluster.until(lambda: len(cluster.in_sync("t")) == 3, 30)
    check(cluster, writer)


def test_stop_hands_leadership_over(cluster: LocalCluster) -> None:
    writer = Writer(cluster)
    for number in (1, 2, 3):
        writer.write(100)
        cluster.stop(number)
        writer.write(100)
        cluster.start(number)
        cluster.until(lambda: len(cluster.in_sync("t")) == 3, 30)
    check(cluster, writer)


def test_group_goes_on_when_its_coordinator_is_killed(cluster: LocalCluster) -> None:
    writer = Writer(cluster)
    writer.write(100)
    writer.finish()
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(["t"])
    try:
        for number in range(100):
            assert next_value(consumer) == b"%d" % number
        consumer.commit(asynchronous=False)
        coordinator = cluster.coordinator("g")
        cluster.kill(coordinator)
        writer.write(100)
        for number in range(100, 200):
            assert next_value(consumer) == b"%d" % number
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert cluster.coordinator("g") not in (coordinator, -1)


@pytest.mark.kavka_cluster(brokers=1, settings={"num.partitions": "7"})
def test_marker_says_what_is_started(kavka_cluster: LocalCluster) -> None:
    assert kavka_cluster.running == [1]
    admin = AdminClient({"bootstrap.servers": kavka_cluster.bootstrap_servers})
    admin.create_topics([NewTopic("t", -1, 1)])["t"].result(30)
    assert len(admin.list_topics("t", timeout=30).topics["t"].partitions) == 7


def test_a_topic_made_by_its_first_write_survives_its_leader(kavka_cluster: LocalCluster) -> None:
    """The first example of docs/reference/testing.md."""
    producer = Producer({"bootstrap.servers": kavka_cluster.bootstrap_servers})
    producer.produce("orders", b"one")
    assert producer.flush(30) == 0
    kavka_cluster.kill(kavka_cluster.leader("orders"))
    producer.produce("orders", b"two")
    assert producer.flush(30) == 0
