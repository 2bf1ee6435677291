"""Topics with everything that a reader may meet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_700_000_000_000
"""The timestamp of the first record; each later one is a second younger."""


def make_topic(broker: Broker, name: str, partitions: int) -> None:
    """Create a topic and wait until it is there."""
    make_topic_at(broker.bootstrap, name, partitions)


def make_topic_at(bootstrap: str, name: str, partitions: int, replicas: int = 1) -> None:
    """As `make_topic`, for brokers of any kind.

    A broker of Apache Kafka answers before it has made all partitions; a batch that it refuses then may be overtaken by
    the next one, after which it never takes it (OutOfOrderSequenceException until the delivery timeout).
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # Records of long ago would be removed while the test runs.
    wanted = NewTopic(name, partitions, replicas, config={"retention.ms": "-1"})
    for future in admin.create_topics([wanted]).values():
        future.result(30)
    deadline_s = time.monotonic() + 30
    while not _are_led(admin, name, partitions):
        assert time.monotonic() < deadline_s, f"{name} has no leaders"


def _are_led(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Return whether the leaders of all partitions answer."""
    ends = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    found = admin.list_offsets(ends, request_timeout=30).values()
    return all(future.exception(30) is None for future in found)


def fill(broker: Broker, topic: str, partitions: int, rounds: int = 40) -> int:
    """Write records of all codecs, with and without keys, values and headers; return how many may be read.

    Where the broker has transactions, committed and aborted ones are among them: their markers are gaps.
    """
    number = 0
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 50}
        )
        for _ in range(rounds):
            _produce(producer, topic, number % partitions, number)
            number += 1
        assert producer.flush(30) == 0
    if not broker.is_kavka:
        number += _transactions(broker, topic, partitions, number)
    return number


def _produce(producer: Producer, topic: str, partition: int, number: int) -> None:
    key = [None, b"", b"key-%d" % number][number % 3]
    value = [b"value-%d" % number * 5, None, b"", b"\x00\xff" * number][number % 4]
    headers = [None, [("h", b"1")], [("a", None), ("a", b""), ("\u017ea", b"x" * number)]][
        number % 3
    ]
    producer.produce(
        topic, value, key, partition=partition, timestamp=FIRST_MS + 1000 * number, headers=headers
    )


def _transactions(broker: Broker, topic: str, partitions: int, first: int) -> int:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": f"fill-{topic}"}
    )
    producer.init_transactions(30)
    visible = 0
    for step in range(6):
        producer.begin_transaction()
        for offset in range(10):
            number = first + 10 * step + offset
            _produce(producer, topic, number % partitions, number)
        # Aborting what librdkafka has not registered yet may end a transaction that the broker never saw.
        assert producer.flush(30) == 0
        if step % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            visible += 10
    return visible
