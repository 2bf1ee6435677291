"""Transactions of other people's clients: librdkafka's and Java's, with Kafka's own tools to check them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

_CALL_S = 60
_STATE = {"3.9": r"state=(\w+)", "4.1": r'"transactionStatus":(\d)'}
"""Patterns of the states of transactions in the output of kafka-dump-log, by release."""


def _topic(broker: Broker, name: str) -> str:
    """Create a topic of two partitions."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(_CALL_S)
    return name


@pytest.fixture
def topic(any_broker: Broker, fresh_name: str) -> str:
    return _topic(any_broker, fresh_name)


class Clients:
    """Clients of one broker, closed at the end."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumers: list[Consumer] = []

    def producer(self, transactional_id: str) -> Producer:
        """A producer that has its epoch."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 60_000,
            }
        )
        producer.init_transactions(_CALL_S)
        return producer

    def consumer(self, group: str, isolation: str = "read_committed") -> Consumer:
        """A consumer without automatic commits."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group,
                "isolation.level": isolation,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        self._consumers.append(consumer)
        return consumer

    def values(self, topic: str, isolation: str, partition: int = 0) -> list[str]:
        """Return what a reader finds in a partition, from its beginning to the end that it can see."""
        consumer = self.consumer("reader", isolation)
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[str] = []
        while True:
            (message,) = consumer.consume(1, _CALL_S)
            error = message.error()
            if error is None:
                found.append((message.value() or b"").decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(error)

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.close()


@contextmanager
def _clients(broker: Broker) -> Iterator[Clients]:
    some = Clients(broker.bootstrap)
    try:
        yield some
    finally:
        some.close()


@pytest.fixture
def clients(any_broker: Broker) -> Iterator[Clients]:
    with _clients(any_broker) as some:
        yield some


def _write(producer: Producer, topic: str, *values: str, partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(_CALL_S) == 0


def test_committed_records_are_read_and_aborted_ones_are_not(clients: Clients, topic: str) -> None:
    producer = clients.producer(topic)
    producer.begin_transaction()
    _write(producer, topic, "a", "b")
    _write(producer, topic, "other", partition=1)
    assert clients.values(topic, "read_committed") == []
    assert clients.values(topic, "read_uncommitted") == ["a", "b"]
    producer.commit_transaction(_CALL_S)
    producer.begin_transaction()
    _write(producer, topic, "c")
    producer.abort_transaction(_CALL_S)
    producer.begin_transaction()
    _write(producer, topic, "d")
    producer.commit_transaction(_CALL_S)
    producer.begin_transaction()  # waits until the markers of the one before are written
    _write(producer, topic, "e")
    assert clients.values(topic, "read_committed") == ["a", "b", "d"]
    assert clients.values(topic, "read_committed", 1) == ["other"]
    assert clients.values(topic, "read_uncommitted") == ["a", "b", "c", "d", "e"]
    producer.abort_transaction(_CALL_S)


def test_a_new_producer_fences_the_former_and_aborts_what_it_left(
    clients: Clients, topic: str
) -> None:
    former = clients.producer(topic)
    former.begin_transaction()
    _write(former, topic, "lost")
    new = clients.producer(topic)
    with pytest.raises(KafkaException) as fenced:
        former.commit_transaction(_CALL_S)
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    new.begin_transaction()
    _write(new, topic, "kept")
    new.commit_transaction(_CALL_S)
    new.begin_transaction()
    _write(new, topic, "open")
    assert clients.values(topic, "read_committed") == ["kept"]
    new.abort_transaction(_CALL_S)


def test_offsets_are_committed_with_the_records(clients: Clients, topic: str) -> None:
    producer = clients.producer(topic)
    consumer = clients.consumer(f"{topic}-group")
    consumer.subscribe([topic])
    consumer.poll(1.0)
    metadata = consumer.consumer_group_metadata()
    for offset, commits in ((5, True), (9, False)):
        producer.begin_transaction()
        _write(producer, topic, f"at {offset}")
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, _CALL_S)
        if commits:
            producer.commit_transaction(_CALL_S)
        else:
            producer.abort_transaction(_CALL_S)
    (found,) = consumer.committed([TopicPartition(topic, 0)], _CALL_S)
    assert found.offset == 5


@pytest.fixture(params=["3.9", "4.1"])
def java(request: pytest.FixtureRequest) -> ApacheKafka:
    """Java's client and tools of one release."""
    return ApacheKafka(request.param)


_PAIRS = [
    pytest.param(("apache", "4.1"), id="apache-4.1", marks=pytest.mark.long),
    pytest.param(("kavka", "3.9"), id="kavka-3.9"),
    pytest.param(("kavka", "4.1"), id="kavka-4.1"),
]


@pytest.fixture(params=_PAIRS)
def pair(request: pytest.FixtureRequest) -> tuple[Broker, ApacheKafka]:
    """A broker, and Java's client and tools that talk to it: ours to both releases, a JVM for each call being dear."""
    name, release = request.param
    broker: Broker = request.getfixturevalue(
        {"apache": "apache_kafka", "kavka": "kavka_broker"}[name]
    )
    return broker, ApacheKafka(release)


def test_java_producers_write_in_transactions(
    pair: tuple[Broker, ApacheKafka], fresh_name: str
) -> None:
    broker, java = pair
    topic = _topic(broker, fresh_name)
    at = ("--bootstrap-server", broker.bootstrap)
    java.check(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "2000", "--record-size", "100", "--throughput", "-1"),
        *("--transactional-id", f"{topic}-perf", "--transaction-duration-ms", "50"),
        *("--producer-props", f"bootstrap.servers={broker.bootstrap}", "acks=all"),
    )
    with _clients(broker) as clients:
        committed = sum(len(clients.values(topic, "read_committed", p)) for p in (0, 1))
    assert committed == 2000
    read = java.check(
        "kafka-console-consumer",
        *at,
        *("--topic", topic, "--from-beginning", "--isolation-level", "read_committed"),
        *("--max-messages", "2000", "--timeout-ms", "30000"),
    )
    assert len(read.lines) == 2000
    listed = java.check("kafka-transactions", *at, "list")
    (row,) = [line.split() for line in listed.lines if f"{topic}-perf" in line]
    assert row[0] == f"{topic}-perf"
    assert row[3] == "CompleteCommit"


def test_tools_find_and_end_an_open_transaction(
    pair: tuple[Broker, ApacheKafka], fresh_name: str
) -> None:
    broker, java = pair
    topic = _topic(broker, fresh_name)
    with _clients(broker) as clients:
        _find_and_end(broker, java, clients, topic)


def _find_and_end(broker: Broker, java: ApacheKafka, clients: Clients, topic: str) -> None:
    at = ("--bootstrap-server", broker.bootstrap)
    producer = clients.producer(topic)
    producer.begin_transaction()
    _write(producer, topic, "open")
    described = java.check("kafka-transactions", *at, "describe", "--transactional-id", topic)
    (row,) = [line for line in described.lines if topic in line]
    assert "Ongoing" in row
    assert f"{topic}-0" in row
    producers = java.check(
        "kafka-transactions", *at, "describe-producers", "--topic", topic, "--partition", "0"
    )
    (fields,) = [line.split() for line in producers.lines if line.strip()][1:]
    producer_id, _epoch, _coordinator_epoch, last_sequence, _timestamp, start_offset = fields
    assert (last_sequence, start_offset) == ("0", "0")
    assert producer_id in row
    java.check(
        "kafka-transactions",
        *at,
        *("abort", "--topic", topic, "--partition", "0", "--start-offset", start_offset),
    )
    assert clients.values(topic, "read_committed") == []
    other = clients.producer(f"{topic}-other")
    other.begin_transaction()
    _write(other, topic, "behind")
    other.commit_transaction(_CALL_S)
    other.begin_transaction()
    _write(other, topic, "open")
    assert clients.values(topic, "read_committed") == ["behind"]
    other.abort_transaction(_CALL_S)


def test_states_are_stored_as_kafka_reads_them(
    kavka_broker: Broker, java: ApacheKafka, fresh_name: str
) -> None:
    clients = Clients(kavka_broker.bootstrap)
    _topic(kavka_broker, fresh_name)
    producer = clients.producer(fresh_name)
    producer.begin_transaction()
    _write(producer, fresh_name, "a")
    producer.commit_transaction(_CALL_S)
    producer.begin_transaction()
    _write(producer, fresh_name, "b")
    producer.abort_transaction(_CALL_S)
    logs = [str(p) for p in _logs(kavka_broker.log_directory, fresh_name)]
    dumped = java.check(
        "kafka-dump-log", "--transaction-log-decoder", "--files", ",".join(logs), seconds=120
    )
    lines = [line for line in dumped.lines if fresh_name in line]
    found = [state for line in lines for state in re.findall(_STATE[java.release], line)]
    names = ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "Ongoing", "PrepareAbort"]
    numbers = ["0", "1", "2", "4", "1", "3"]
    assert found[:6] == (names if java.release == "3.9" else numbers), dumped.out


def _logs(directory: Path, transactional_id: str) -> list[Path]:
    """Return the segments of `__transaction_state` that speak of an id."""
    needle = transactional_id.encode()
    return [
        path
        for path in sorted(directory.glob("__transaction_state-*/*.log"))
        if needle in path.read_bytes()
    ]
