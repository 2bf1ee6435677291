"""Compacted topics beside Apache Kafka's: the same records survive, and each reads what the other has cleaned."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import until
from kavka_compat.compacted import CLEANER, CODECS, TOPIC, CompactedTopic, Content, Row
from kavka_compat.dump_log import assert_kafka_accepts
from kavka_compat.fixtures import StartBroker
from kavka_compat.mixed import Kind, run_mixed
from kavka_compat.ours import run_kavka, start_kavka

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

RETENTION_MS = 1500


def _twice(bootstrap: str, log_directory: Path) -> list[Content]:
    """Write and clean, and again when the first tombstones have been there long enough."""
    topic = CompactedTopic(bootstrap, log_directory, **{"delete.retention.ms": str(RETENTION_MS)})
    topic.write()
    found = [topic.clean()]
    time.sleep(RETENTION_MS / 1000 + 0.5)  # time: tombstones are kept for so long
    for _ in range(2):
        topic.fill()
        found.append(topic.clean())
    return found


@pytest.mark.long
def test_the_same_records_survive_in_kafka_and_kavka(tmp_path: Path) -> None:
    """Kafka 3.9; 4.1 allows no segments below 1 MiB."""
    with run_kavka(tmp_path / "kavka", CLEANER) as broker:
        ours = _twice(broker.bootstrap, broker.log_directory)
    with ApacheKafka("3.9").run_broker(tmp_path / "apache", settings=CLEANER) as broker:
        theirs = _twice(broker.bootstrap, broker.log_directory)
    assert len(ours[0].records) > len(ours[1].records) > 0
    for our, their in zip(ours, theirs, strict=True):
        assert our.records == their.records
        assert our.batches == their.batches


def _read(bootstrap: str) -> dict[bytes, bytes | None]:
    """Return the last committed value of each key."""
    return dict(_read_all(bootstrap))


def _read_all(bootstrap: str) -> list[Row]:
    """Return the committed records, as librdkafka's consumer reads them from the beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[Row] = []
    last_offset = -1
    while True:
        message = consumer.poll(30)
        assert message is not None, "nothing within 30 s"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            break
        assert message.offset() > last_offset
        last_offset = message.offset()
        found.append((message.key(), message.value()))
    consumer.close()
    return found


def _values(found: dict[bytes, bytes | None]) -> dict[bytes, bytes]:
    return {key: value for key, value in found.items() if value is not None}


def test_others_read_and_check_what_we_have_cleaned(
    tmp_path: Path, kafka_tools: ApacheKafka
) -> None:
    with run_kavka(tmp_path, CLEANER) as broker:
        topic = CompactedTopic(broker.bootstrap, broker.log_directory)
        before = topic.write()
        whole = len(topic.content().records)
        cleaned = topic.clean()
        assert len(cleaned.records) < whole / 4
        rows = _read_all(broker.bootstrap)
        assert dict(rows) == before
        finished = kafka_tools.check(
            "kafka-console-consumer",
            *("--bootstrap-server", broker.bootstrap, "--topic", TOPIC, "--from-beginning"),
            *("--isolation-level", "read_committed", "--max-messages", str(len(rows))),
            *("--property", "print.key=true", "--property", "null.literal=NULL"),
        )
        java = dict(line.split("\t", 1) for line in finished.lines if "\t" in line)
        text = {k.decode(): "NULL" if v is None else v.decode() for k, v in before.items()}
        assert java == text
        # A removed offset gives the next record that there is.
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition(TOPIC, 0, 1)])
        message = consumer.poll(30)
        assert message is not None
        assert message.offset() == cleaned.records[0][0] > 1
        consumer.close()
    kept = assert_kafka_accepts(topic.partition, kafka_tools.release, is_compacted=True)
    assert kept >= len(cleaned.records)


def test_a_record_without_a_key_is_refused_as_kafka_does(start_broker: StartBroker) -> None:
    with start_broker(CLEANER) as broker:
        CompactedTopic(broker.bootstrap, broker.log_directory)
        errors: list[KafkaError | None] = []
        for codec in CODECS:
            producer = Producer(
                {
                    "bootstrap.servers": broker.bootstrap,
                    "compression.type": codec,
                    "linger.ms": 60_000,
                    "batch.num.messages": 3,  # all three in one batch, however busy the machine is
                }
            )
            for key in (b"k", None, b"k"):
                producer.produce(
                    TOPIC, bytes(1000), key, on_delivery=lambda error, _: errors.append(error)
                )
            producer.flush(30)
        assert [error.code() if error else 0 for error in errors] == [
            KafkaError.INVALID_RECORD
        ] * 3 * len(CODECS)


@pytest.mark.long
def test_kafka_goes_on_with_what_we_have_cleaned_and_we_with_what_kafka_has(tmp_path: Path) -> None:
    settings = {**CLEANER, "log.cleaner.enable": "true"}
    with run_mixed(tmp_path, {0: Kind.KAVKA}, settings) as cluster:
        logs = cluster.partition_directory(0, TOPIC, 0).parent
        topic = CompactedTopic(cluster.address(0), logs)
        expected = topic.write()
        for kind in (Kind.APACHE, Kind.KAVKA, Kind.APACHE):
            before = topic.clean()
            cluster.stop(0)
            cluster.start(0, kind=kind)
            assert _values(_read(cluster.address(0))) == _values(expected)
            assert topic.content().records == before.records
            expected.update(topic.write())
        topic.clean()
        assert _values(_read(cluster.address(0))) == _values(expected)


@pytest.mark.long
def test_a_broker_killed_while_it_cleans_loses_nothing(tmp_path: Path) -> None:
    """Killed again and again at any moment of passes that the throttle makes long."""
    slow = {**CLEANER, "log.cleaner.io.max.bytes.per.second": "60000"}
    source = random.Random(11)
    with run_kavka(tmp_path, CLEANER) as broker:
        topic = CompactedTopic(broker.bootstrap, broker.log_directory)
        expected = {**topic.write(), **topic.write()}
        topic.configure("min.cleanable.dirty.ratio", "0.0001")
        broker.process.kill()
    unfinished = 0
    for _ in range(8):
        started = start_kavka(tmp_path, slow)
        try:
            assert _values(_read(started.bootstrap)) == _values(expected)
            time.sleep(source.uniform(1, 5))  # time: the cleaner begins after one second
        finally:
            started.process.kill()
        names = {path.suffix for path in topic.partition.iterdir()}
        unfinished += bool(names & {".cleaned", ".swap", ".deleted"})
    assert unfinished
    with run_kavka(tmp_path, CLEANER) as broker:
        until(topic.is_clean, 60, "the log is clean")
        assert _values(_read(broker.bootstrap)) == _values(expected)
        names = {path.suffix for path in topic.partition.iterdir()}
        assert not names & {".cleaned", ".swap", ".deleted"}
    assert_kafka_accepts(topic.partition, is_compacted=True)


def test_internal_topics_are_compacted_and_nothing_in_force_is_forgotten(tmp_path: Path) -> None:
    few = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    small = {
        "offsets.topic.segment.bytes": "2000",
        "transaction.state.log.segment.bytes": "2000",
        "log.cleaner.min.cleanable.ratio": "0.1",
    }
    with run_kavka(tmp_path, {**CLEANER, **few, **small}) as broker:
        topic = CompactedTopic(broker.bootstrap, broker.log_directory)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        for offset in range(100):
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "id"})
        producer.init_transactions(30)
        for number in range(40):
            producer.begin_transaction()
            producer.produce(TOPIC, b"%d" % number, b"key")
            offsets = [TopicPartition(TOPIC, 0, 1000 + number)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
        consumer.close()
        cleaned = broker.log_directory / "cleaner-offset-checkpoint"
        for name, least in (("__consumer_offsets", 150), ("__transaction_state", 80)):
            until(
                lambda name=name, least=least: (  # type: ignore[misc]
                    cleaned.exists()
                    and any(
                        int(line.split()[2]) > least
                        for line in cleaned.read_text().splitlines()
                        if line.startswith(name)
                    )
                ),
                60,
                f"{name} is cleaned",
            )
        broker.process.kill()
    with run_kavka(tmp_path, {**CLEANER, **few, **small}) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)
        assert found.offset == 1038
        consumer.close()
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "id"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(TOPIC, b"last", b"key")
        producer.commit_transaction(30)
        assert _read(broker.bootstrap)[b"key"] == b"last"
    for name in ("__consumer_offsets", "__transaction_state"):
        assert_kafka_accepts(topic.partition.parent / f"{name}-0", is_compacted=True)
