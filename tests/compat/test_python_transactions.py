"""Transactions of the clients written in Python by others: aiokafka and kafka-python."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.brokers import Broker

pytestmark = [
    pytest.mark.compat,
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the libraries' own
]

_PATIENCE_S = 60.0


class Transactional(Protocol):
    """A producer that has its epoch."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, partition: int, *values: bytes) -> None:
        """Write, and return when all is acknowledged."""

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        """Commit an offset of partition 0 in the transaction."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def close(self) -> None:
        """Close the client; a transaction that is open stays so."""


class Library(Protocol):
    """One library."""

    def producer(self, bootstrap: str, transactional_id: str) -> Transactional:
        """Return a producer that has its epoch."""

    def values(self, bootstrap: str, topic: str, count: int, isolation: str) -> list[bytes]:
        """Return the first `count` values of partition 0."""

    def fenced(self) -> type[Exception]:
        """Return what a producer raises that was replaced."""


class _AiokafkaProducer:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._runner = asyncio.Runner()
        self._producer: Any = self._do(self._start(bootstrap, transactional_id))

    async def _start(self, bootstrap: str, transactional_id: str) -> Any:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        await producer.start()
        return producer

    def _do(self, what: Any) -> Any:
        return self._runner.run(asyncio.wait_for(what, _PATIENCE_S))

    def begin(self) -> None:
        self._do(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, *values: bytes) -> None:
        for value in values:
            self._do(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        from aiokafka import TopicPartition

        offsets = {TopicPartition(topic, 0): offset}
        self._do(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._do(self._producer.commit_transaction())

    def abort(self) -> None:
        self._do(self._producer.abort_transaction())

    def close(self) -> None:
        self._do(self._producer.stop())
        self._runner.close()


class Aiokafka:
    """aiokafka."""

    def producer(self, bootstrap: str, transactional_id: str) -> Transactional:
        return _AiokafkaProducer(bootstrap, transactional_id)

    def values(self, bootstrap: str, topic: str, count: int, isolation: str) -> list[bytes]:
        return asyncio.run(self._values(bootstrap, topic, count, isolation))

    async def _values(self, bootstrap: str, topic: str, count: int, isolation: str) -> list[bytes]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
        await consumer.start()
        try:
            topic_partition = TopicPartition(topic, 0)
            consumer.assign([topic_partition])
            await consumer.seek_to_beginning(topic_partition)
            one = consumer.getone
            return [(await asyncio.wait_for(one(), _PATIENCE_S)).value for _ in range(count)]
        finally:
            await consumer.stop()

    def fenced(self) -> type[Exception]:
        from aiokafka.errors import ProducerFenced

        return ProducerFenced  # type: ignore[no-any-return]


class _KafkaPythonProducer:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        from kafka import KafkaProducer

        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, *values: bytes) -> None:
        for value in values:
            self._producer.send(topic, value, partition=partition).get(_PATIENCE_S)

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)


class KafkaPython:
    """kafka-python."""

    def producer(self, bootstrap: str, transactional_id: str) -> Transactional:
        return _KafkaPythonProducer(bootstrap, transactional_id)

    def values(self, bootstrap: str, topic: str, count: int, isolation: str) -> list[bytes]:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level=isolation,
            enable_auto_commit=False,
            consumer_timeout_ms=int(_PATIENCE_S * 1000),
        )
        try:
            topic_partition = TopicPartition(topic, 0)
            consumer.assign([topic_partition])
            consumer.seek_to_beginning(topic_partition)
            return [next(consumer).value for _ in range(count)]
        finally:
            consumer.close()

    def fenced(self) -> type[Exception]:
        from kafka.errors import ProducerFencedError

        return ProducerFencedError  # type: ignore[no-any-return]


@pytest.fixture(params=[Aiokafka, KafkaPython], ids=["aiokafka", "kafka-python"])
def library(request: pytest.FixtureRequest) -> Library:
    chosen: Library = request.param()
    return chosen


@pytest.fixture
def topic(any_broker: Broker, fresh_name: str) -> str:
    admin = AdminClient({"bootstrap.servers": any_broker.bootstrap})
    admin.create_topics([NewTopic(fresh_name, 2, 1)])[fresh_name].result(60)
    return fresh_name


@contextmanager
def _producer(library: Library, broker: Broker, name: str) -> Iterator[Transactional]:
    producer = library.producer(broker.bootstrap, name)
    try:
        yield producer
    finally:
        producer.close()


def test_committed_records_are_read_and_aborted_ones_are_not(
    library: Library, any_broker: Broker, topic: str
) -> None:
    with _producer(library, any_broker, topic) as producer:
        for number in range(4):
            producer.begin()
            producer.send(topic, 0, b"%d" % number, b"and %d" % number)
            producer.send(topic, 1, b"other %d" % number)
            if number % 2:
                producer.abort()
            else:
                producer.commit()
        producer.begin()
        producer.send(topic, 0, b"last")
        producer.commit()
    everything = [b"0", b"and 0", b"1", b"and 1", b"2", b"and 2", b"3", b"and 3", b"last"]
    committed = [b"0", b"and 0", b"2", b"and 2", b"last"]
    at = any_broker.bootstrap
    assert library.values(at, topic, 5, "read_committed") == committed
    assert library.values(at, topic, 9, "read_uncommitted") == everything


def test_offsets_are_committed_with_the_transaction(
    library: Library, any_broker: Broker, topic: str
) -> None:
    group = f"{topic}-group"
    with _producer(library, any_broker, topic) as producer:
        for offset, commits in ((5, True), (9, False)):
            producer.begin()
            producer.send(topic, 0, b"at %d" % offset)
            producer.send_offset(topic, offset, group)
            if commits:
                producer.commit()
            else:
                producer.abort()
        producer.begin()  # waits until the markers of the one before are written
        producer.send(topic, 0, b"more")
        producer.commit()
    assert _committed(any_broker, group) == {0: 5}


def _committed(broker: Broker, group: str) -> dict[int, int]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], require_stable=True
    )
    return {
        topic_partition.partition: topic_partition.offset
        for topic_partition in asked[group].result(60).topic_partitions
    }


def test_a_new_producer_fences_the_former_and_aborts_what_it_left(
    library: Library, any_broker: Broker, topic: str
) -> None:
    with _producer(library, any_broker, topic) as former:
        former.begin()
        former.send(topic, 0, b"lost")
        with _producer(library, any_broker, topic) as new:
            with pytest.raises(library.fenced()):
                former.commit()
            new.begin()
            new.send(topic, 0, b"kept")
            new.commit()
    assert library.values(any_broker.bootstrap, topic, 1, "read_committed") == [b"kept"]
