"""A directory of Apache Kafka 3.9 is adopted by a lone broker of ours: no record goes before settings are set."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import until, wait_until_all_know_all
from kavka_compat.ours import launch_kavka

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

OLD_MS = 1_700_000_000_000
"""Years ago."""
KEPT = {
    "compacted": {"cleanup.policy": "compact", "segment.bytes": "200"},
    "unlimited": {"retention.ms": "-1", "segment.bytes": "200"},
}
COUNT = 10


def _fill(bootstrap: str, topic: str) -> None:
    """Write records of years ago, in segments of few records."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    for number in range(COUNT):
        producer.produce(
            topic,
            b"%d" % number,
            b"k%d" % number,
            timestamp=OLD_MS,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
        assert producer.flush(30) == 0  # a batch of its own
    assert not errors, errors


def _first_offset(consumer: Consumer, topic: str) -> int:
    low, _high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    return int(low)


def _values(consumer: Consumer, topic: str) -> list[bytes]:
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while True:
        message = consumer.poll(20)
        assert message is not None, values
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            return values
        values.append(message.value() or b"")


def test_adopted_topics_of_apache_kafka_lose_nothing_to_retention(tmp_path: Path) -> None:
    with ApacheKafka("3.9").run_broker(tmp_path, mode="zookeeper") as theirs:
        at, port = theirs.bootstrap, theirs.port
        wait_until_all_know_all([at])
        admin = AdminClient({"bootstrap.servers": at})
        made = admin.create_topics([NewTopic(n, 1, 1, config=c) for n, c in KEPT.items()])
        for each in made.values():
            each.result(30)
        for name in KEPT:
            _fill(at, name)
        theirs.process.stop()

    ours = launch_kavka(tmp_path, {"log.retention.check.interval.ms": "50"}, port)
    consumer = Consumer(
        {"bootstrap.servers": at, "group.id": "g", "enable.partition.eof": True, "log_level": 0}
    )
    try:
        ours.process.wait_for("ready: ", 60)
        admin = AdminClient({"bootstrap.servers": at})
        admin.create_topics([NewTopic("control", 1, 1)])["control"].result(30)
        _fill(at, "control")
        until(lambda: _first_offset(consumer, "control") > 0)  # a round of retention checks all
        for name in KEPT:
            assert _values(consumer, name) == [b"%d" % number for number in range(COUNT)]
    finally:
        consumer.close()
        ours.process.stop()
