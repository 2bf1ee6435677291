"""The end of a controller does not touch partitions whose replicas live."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.core.partition import Partition
from kavka.ids import TopicPartition
from kavka.testing.local_cluster import LocalCluster

T0 = TopicPartition("t", 0)


def state(cluster: LocalCluster, number: int) -> tuple[int, int, int]:
    """Return leader epoch, partition epoch and the size of the in-sync set, as the leader has them."""
    member = cluster._members[number]

    def look() -> tuple[int, int, int]:
        partition: Partition = member.broker.replica_manager.find(T0).partition
        return partition.leader_epoch, partition.partition_epoch, len(partition.in_sync_replicas)

    return member.process.ask(look)


def test_other_partitions_are_not_affected(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, brokers=4) as cluster:
        kill_the_controller(cluster)


def kill_the_controller(cluster: LocalCluster) -> None:
    ruler = cluster.controller()
    leader, *followers = (number for number in cluster.running if number != ruler)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    topic = NewTopic("t", 1, replica_assignment=[[leader, *followers]])
    admin.create_topics([topic])["t"].result(30)
    cluster.until(lambda: len(cluster.in_sync("t")) == 3)
    before = state(cluster, leader)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    cluster.kill(ruler)
    for number in range(100):
        producer.produce("t", b"%d" % number)
    assert producer.flush(30) == 0
    cluster.until(lambda: cluster.controller() not in (ruler, -1))
    producer.produce("t", b"under another controller")
    assert producer.flush(30) == 0
    cluster.until(lambda: cluster.ends("t")[leader] == (101, 101))
    assert state(cluster, leader) == before
