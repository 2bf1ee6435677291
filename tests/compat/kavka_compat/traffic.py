"""Clients of a mixed cluster: what they write and read, and whether nothing is lost, doubled or out of order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.testing.history import Verdict
from kavka.testing.history.workload import Load, Settings
from kavka_compat.mixed import Kind, MixedCluster


def create(
    cluster: MixedCluster,
    admin: AdminClient,
    topic: str,
    assignment: Sequence[list[int]],
    **config: str,
) -> None:
    """Create a topic with these replicas, and wait until all are in sync."""
    new = NewTopic(topic, len(assignment), replica_assignment=list(assignment), config=config)
    admin.create_topics([new])[topic].result(30)
    cluster.wait_in_sync(topic)


def produce(cluster: MixedCluster, topic: str, partition: int, values: Sequence[bytes]) -> None:
    """Write in order, with the settings that lose nothing; all must be acknowledged."""
    cluster.wait_until_known(topic, partition)
    settings = {**cluster.client, "enable.idempotence": True, "acks": "all"}
    with Producer(settings) as producer:
        deliver(producer, topic, [partition], values)


def deliver(
    producer: Producer, topic: str, partitions: Sequence[int], values: Sequence[bytes]
) -> None:
    """Write each value to all the partitions; what the producer waits for must come for all."""
    errors: list[object] = []
    for value in values:
        for partition in partitions:
            producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
    assert producer.flush(60) == 0
    assert not errors, errors


def consume(cluster: MixedCluster, topic: str, group: str, count: int) -> dict[int, list[bytes]]:
    """Read as a group from where it is, commit, and return the values by partition."""
    settings = {
        **cluster.client,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    found: dict[int, list[bytes]] = {}
    left, deadline = count, time.monotonic() + 60
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        while left > 0:
            assert time.monotonic() < deadline, f"{left} of {count} did not come"
            for message in consumer.consume(left, timeout=1):
                if message.error() is None:
                    found.setdefault(message.partition(), []).append(message.value())
                    left -= 1
        consumer.commit(asynchronous=False)
    return found


def offsets_partition(group: str) -> int:
    """Return the partition of `__consumer_offsets` that keeps a group: Java's hash, without its sign."""
    hashed = 0
    for letter in group:
        hashed = (31 * hashed + ord(letter)) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % 4


def group_on(cluster: MixedCluster, kind: Kind, prefix: str) -> str:
    """Return the name of a group whose coordinator is of a kind."""
    for number in range(1000):
        state = cluster.state("__consumer_offsets", offsets_partition(f"{prefix}-{number}"))
        assert state is not None
        if cluster.kinds[state.leader] is kind:
            return f"{prefix}-{number}"
    raise AssertionError(f"{kind} leads no partition of __consumer_offsets")


def committed(cluster: MixedCluster, group: str) -> dict[int, int]:
    """Return the committed offsets of a group, by partition."""
    admin = AdminClient(cluster.client)
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {
        topic_partition.partition: topic_partition.offset
        for topic_partition in asked[group].result(30).topic_partitions
    }


def load_on(cluster: MixedCluster, topic: str, **more: int) -> Load:
    """Prepare a judged load on a topic of its own: idempotent producers, readers, members of a group."""
    chosen: dict[str, Any] = {
        "config": cluster.client,
        "partitions": 4,
        "replication_factor": 3,
        "min_insync_replicas": 2,
        "rate": 60,
        **more,
    }
    return Load(Settings(cluster.bootstrap, "confluent", topic, **chosen))


def assert_nothing_is_wrong(verdict: Verdict) -> None:
    """Insist that no promise was broken, all was read, and every send succeeded."""
    assert verdict.passed, verdict.report()
    assert not verdict.unseen
    assert set(verdict.counts) & {"sends info", "sends fail"} == set(), verdict.report()
