"""Kafka's DumpLogSegments reads the directories without complaint, indexes included."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.dump_log import assert_kafka_accepts
from kavka_compat.fixtures import StartBroker

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def _fill(broker: Broker) -> None:
    """Write topic `t`, a codec after the other, into several segments, and commit offsets of group `g`."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"segment.bytes": "16384", "index.interval.bytes": "256"}
    admin.create_topics([NewTopic("t", 1, 1, config=config)])["t"].result(30)
    for codec in _CODECS:
        settings = {"bootstrap.servers": broker.bootstrap, "compression.type": codec}
        with Producer(
            {**settings, "enable.idempotence": True, "batch.num.messages": 20}
        ) as producer:
            for number in range(400):
                headers = [("n", str(number))] if number % 3 else None
                producer.produce("t", b"value %d" % number, b"key", headers=headers)
            assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("t", 0, 7, metadata="why")], asynchronous=False)
    consumer.close()


def test_dump_log_finds_nothing_wrong_with_logs_and_indexes(start_broker: StartBroker) -> None:
    with start_broker() as broker:
        _fill(broker)
    partition = broker.log_directory / "t-0"
    segments = sorted(partition.glob("*.log"))
    assert len(segments) > 1
    assert any(index.stat().st_size > 0 for index in partition.glob("*.index"))
    records = assert_kafka_accepts(partition)
    assert records == 400 * len(_CODECS)


def test_dump_log_decodes_committed_offsets(start_broker: StartBroker) -> None:
    with start_broker() as broker:
        _fill(broker)
    logs = [
        str(log)
        for log in broker.log_directory.glob("__consumer_offsets-*/*.log")
        if log.stat().st_size
    ]
    for release in ("3.9", "4.1"):
        dumped = ApacheKafka(release).check(
            "kafka-dump-log", "--offsets-decoder", "--files", ",".join(logs)
        )
        (commit,) = (line for line in dumped.lines if '"topic":"t"' in line)
        assert '"group":"g"' in commit
        assert '"partition":0' in commit
        assert '"offset":7' in commit
        assert '"metadata":"why' in commit


def test_kafka_39_serves_the_same_directory_names(start_broker: StartBroker) -> None:
    with start_broker() as broker:
        _fill(broker)
    names = {path.name for path in broker.log_directory.iterdir()}
    assert {
        "t-0",
        "meta.properties",
        ".kafka_cleanshutdown",
        "recovery-point-offset-checkpoint",
    } <= names
    assert {"log-start-offset-checkpoint", "replication-offset-checkpoint"} <= names
    inside = {path.suffix for path in (broker.log_directory / "t-0").iterdir()}
    assert {".log", ".index", ".timeindex", ".snapshot", ".metadata"} <= inside
    assert (broker.log_directory / "t-0" / "leader-epoch-checkpoint").exists()
