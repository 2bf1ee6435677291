"""Clients of others wait for committed offsets that their coordinator cannot confirm yet (decision 013)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.testing.local_cluster import LocalCluster

pytestmark = pytest.mark.compat
SETTINGS = {"offsets.topic.num.partitions": "1", "offsets.commit.timeout.ms": "1000"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, brokers=3, settings=SETTINGS) as cluster:
        yield cluster


def consumer(cluster: LocalCluster) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )


def test_librdkafka_goes_on_when_the_replicas_follow_again(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It never asks again after NOT_COORDINATOR (its issue 5586): an application would read nothing, without limit."""
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic("t", 1, 3)])["t"].result(30)
    producer = Producer(servers)
    for number in range(10):
        producer.produce("t", str(number))
    assert producer.flush(30) == 0
    first = consumer(cluster)
    first.commit(offsets=[TopicPartition("t", 0, 4)], asynchronous=False)
    first.close()
    coordinator = cluster.leader("__consumer_offsets")
    follower = next(number for number in cluster.running if number != coordinator)

    cluster.cut(coordinator, follower)
    second = consumer(cluster)
    second.assign([TopicPartition("t", 0)])
    ends = time.monotonic() + 60
    message = None
    while message is None and time.monotonic() < ends:
        message = second.poll(0.2)
        if "leadership not confirmed in time" in caplog.text:
            cluster.heal()
    second.close()
    assert "leadership not confirmed in time" in caplog.text
    assert message is not None
    assert message.error() is None, message.error()
    assert message.offset() == 4
