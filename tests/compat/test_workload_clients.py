"""The workload's consumers, whatever library they use, stand where the history says that they stand."""

from __future__ import annotations

import time

import pytest

from kavka.ids import TopicPartition
from kavka.testing.history.operations import Record
from kavka.testing.history.workload import CLIENTS
from kavka.testing.history.workload.client import WorkloadClient, WorkloadConsumer
from kavka_compat.brokers import Broker

pytestmark = pytest.mark.compat


def write(client: WorkloadClient, topic_partition: TopicPartition, count: int) -> None:
    client.create_topic(topic_partition.topic, 1, 1, {})
    producer = client.producer(None)
    for number in range(count):
        producer.send(topic_partition, str(number), lambda *_: None)
    producer.close()


def read(consumer: WorkloadConsumer, count: int) -> list[int]:
    found: list[Record] = []
    deadline = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += consumer.poll(0.2)
    return [record.offset for record in found]


@pytest.mark.parametrize("name", ["confluent", "kavka"])  # kafka-python warns
def test_a_partition_that_comes_back_is_read_from_its_beginning(
    any_broker: Broker, fresh_name: str, name: str
) -> None:
    client = CLIENTS[name](any_broker.bootstrap, 60, {})
    topic_partition, other = (TopicPartition(f"{fresh_name}-{n}", 0) for n in range(2))
    write(client, topic_partition, 3)
    write(client, other, 1)
    consumer = client.consumer(None)
    try:
        consumer.assign([topic_partition], [topic_partition])
        assert read(consumer, 3) == [0, 1, 2]
        consumer.assign([other], [other])
        consumer.assign([other, topic_partition], [topic_partition])
        consumer.assign([topic_partition], [])  # nothing was read of it since it came back
        assert read(consumer, 3) == [0, 1, 2]
    finally:
        consumer.close()
