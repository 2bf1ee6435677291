"""Brokers know their producers after two kills with retention between: Apache Kafka 3.9's, ours, and ours on its logs.

The quiet producer wrote into the first segment only, and retention takes that one away; so does it with the first batch
of a transaction that is still open.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kavka.errors import ErrorCode
from kavka_compat.asking import until
from kavka_compat.idempotent import IdempotentProducer
from kavka_compat.mixed import Kind, MixedCluster
from kavka_compat.served import run_served
from kavka_compat.traffic import create

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

SETTINGS = {
    "log.initial.task.delay.ms": "200",  # Kafka's alone
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}
LIVES = {
    "kavka": (Kind.KAVKA, Kind.KAVKA, Kind.KAVKA),
    "apache": (Kind.APACHE, Kind.APACHE, Kind.APACHE),
    "apache-then-kavka": (Kind.APACHE, Kind.KAVKA, Kind.KAVKA),
    "apache-twice-then-kavka": (Kind.APACHE, Kind.APACHE, Kind.KAVKA),
}
"""The kinds of the brokers that write, that recover and delete, and that recover again."""


@pytest.mark.parametrize(
    "lives",
    [
        pytest.param(lives, id=name, marks=() if name == "kavka" else pytest.mark.long)
        for name, lives in LIVES.items()
    ],
)
def test_producers_are_known_after_a_kill_retention_and_another_kill(
    tmp_path: Path, fresh_name: str, lives: Sequence[Kind]
) -> None:
    with run_served(tmp_path / "registry", {"tickTime": "500"}) as registry:
        cluster = MixedCluster(tmp_path, registry.connect, {0: lives[0]}, SETTINGS)
        cluster.open_registry()
        try:
            cluster.start()
            write_is_known_after_two_kills(cluster, fresh_name, lives)
        finally:
            cluster.abandon()
            cluster.close_registry()


def write_is_known_after_two_kills(
    cluster: MixedCluster, topic: str, lives: Sequence[Kind]
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    create(cluster, admin, topic, [[0]], **{"segment.bytes": "2000"})
    transactional = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": "till", "linger.ms": 0}
    )
    transactional.init_transactions(60)
    quiet, busy = IdempotentProducer(cluster, topic), IdempotentProducer(cluster, topic)
    last_of_quiet = [quiet.write() for _ in range(3)][-1]
    transactional.begin_transaction()
    transactional.produce(topic, b"never committed", partition=0)
    assert transactional.flush(60) == 0
    last_of_busy = [busy.write() for _ in range(100)][-1]
    cluster.kill(0)

    cluster.revive(0, lives[1])
    cluster.wait_until_known(topic, 0)
    keep(admin, topic, retained_bytes=3000)
    directory = cluster.partition_directory(0, topic, 0)
    until(
        lambda: min(int(path.stem) for path in directory.glob("*.log")) > last_of_quiet + 1,
        what="retention has removed the first segments",
    )
    cluster.kill(0)

    cluster.revive(0, lives[2])
    cluster.wait_until_known(topic, 0)
    assert busy.repeat() == last_of_busy
    assert quiet.repeat() == last_of_quiet
    assert quiet.skip() == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert quiet.write() == last_of_busy + 1
    assert stable_end(cluster, topic) < last_of_busy
    transactional.abort_transaction(60)
    until(lambda: stable_end(cluster, topic) == last_of_busy + 3, what="the transaction has ended")


def keep(admin: AdminClient, topic: str, retained_bytes: int) -> None:
    """Set retention.bytes of a topic."""
    entry = ConfigEntry(
        "retention.bytes", str(retained_bytes), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    (changed,) = admin.incremental_alter_configs([resource]).values()
    changed.result(30)


def stable_end(cluster: MixedCluster, topic: str) -> int:
    """Return the position behind all that readers of committed records are given, markers included."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "none",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    partition = TopicPartition(topic, 0, 0)
    with Consumer(settings) as consumer:
        consumer.assign([partition])
        while (message := consumer.poll(60)) is not None and message.error() is None:
            assert message.value() != b"never committed"
        assert message is not None
        assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
        end: int = message.offset()
        return end
