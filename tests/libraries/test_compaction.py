"""A compacted topic with three replicas: each cleans on its own, and any leader has the same records."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.testing.local_cluster import LocalCluster
from kavka.wire.records.batch import decode_records
from kavka.wire.records.header import walk

SETTINGS = {"log.cleaner.backoff.ms": "50", "file.delete.delay.ms": "0"}
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "2000",
    "min.cleanable.dirty.ratio": "0.01",
    "index.interval.bytes": "200",
}


def create(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic("t", 1, 3, config=CONFIG)])["t"].result(30)
    cluster.until(lambda: len(cluster.in_sync("t")) == 3)


def write(cluster: LocalCluster, count: int, last: dict[bytes, bytes | None]) -> None:
    """Write keys over and over, each in a batch of its own."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    for number in range(count):
        key, value = b"key %d" % (number % 20), None if number % 7 == 3 else b"value %d" % number
        producer.produce("t", value, key)
        last[key] = value
        if number % 4 == 0:
            producer.flush(60)
    assert producer.flush(60) == 0


def read(cluster: LocalCluster) -> dict[bytes, bytes | None]:
    """Return the last value of each key, read from the beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    found: dict[bytes, bytes | None] = {}
    while (message := consumer.poll(60)) is not None:
        if message.error() is None:
            found[message.key()] = message.value()
        elif message.error().code() == KafkaError._PARTITION_EOF:
            break
    consumer.close()
    return found


def records(cluster: LocalCluster, number: int) -> dict[int, tuple[bytes | None, bytes | None]]:
    data = cluster.log_bytes(number, "t")
    return {
        record.offset: (record.key, record.value)
        for header in walk(data)
        for record in decode_records(data, header)
    }


def is_clean(cluster: LocalCluster, number: int) -> bool:
    """Return whether a replica has cleaned all but its active segment."""
    replica = cluster._replica(number, "t", 0)
    return (
        replica is not None and replica.log.cleaner_offset == replica.log.segments[-1].base_offset
    )


def test_replicas_clean_on_their_own_and_agree(tmp_path: Path) -> None:
    last: dict[bytes, bytes | None] = {}
    with LocalCluster(tmp_path, settings=SETTINGS) as cluster:
        create(cluster)
        write(cluster, 300, last)
        for number in cluster.running:
            cluster.until(lambda number=number: is_clean(cluster, number), 60)  # type: ignore[misc]
        assert len(records(cluster, cluster.running[0])) < 150
        leader = cluster.leader("t")
        cluster.kill(leader)
        cluster.until(lambda: cluster.leader("t") not in (-1, leader))
        assert read(cluster) == last
        write(cluster, 100, last)
        cluster.start(leader)
        cluster.until(lambda: len(cluster.in_sync("t")) == 3, 60)
        for number in cluster.running:
            cluster.until(lambda number=number: is_clean(cluster, number), 60)  # type: ignore[misc]
        assert read(cluster) == last
        survivors = [records(cluster, number) for number in cluster.running]
        for one in survivors:
            newest: dict[bytes | None, bytes | None] = dict(one.values())
            assert newest == last
