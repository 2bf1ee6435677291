"""A plugin of pytest for tests of pipelines: after each test librdkafka reads the topics as the test saw them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from kavka.pipelines.testing import Pipeline

Seen = tuple[int, int, bytes | None, bytes | None]


@pytest.fixture(autouse=True)
def _topics_as_librdkafka_reads_them(request: pytest.FixtureRequest) -> Iterator[None]:
    if "pipeline" not in request.fixturenames:
        yield
        return
    pipeline: Pipeline = request.getfixturevalue("pipeline")
    yield
    settings = {
        "bootstrap.servers": pipeline.bootstrap_servers,
        "group.id": "unused",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    count = 0
    for name, topic in consumer.list_topics(timeout=30).topics.items():
        if name.startswith("__"):
            continue
        ours = [(r.partition, r.offset, r.key, r.value) for r in pipeline.topic(name)]
        assert read(consumer, name, list(topic.partitions)) == ours, name
        count += len(ours)
    consumer.close()
    assert count, "the test has written nothing"


def read(consumer: Consumer, topic: str, partitions: list[int]) -> list[Seen]:
    """Return the committed records of a topic, by partition and offset."""
    found: list[Seen] = []
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    left = set(partitions)
    while left:
        message = consumer.poll(30)
        assert message is not None, topic
        if message.error():
            left.discard(message.partition())
        else:
            place = message.partition(), message.offset()
            found.append((*place, message.key(), message.value()))
    return sorted(found, key=lambda seen: seen[:2])
