"""Committed records of a topic, as librdkafka reads them."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition


def committed_messages(bootstrap: str, topic: str, partitions: Iterable[int]) -> list[Message]:
    """Return the committed messages of these partitions up to their ends; within one in the order of offsets."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "outside", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    found, left = [], set(partitions)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        while left:
            message = consumer.poll(30)
            assert message is not None, topic
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(message.partition())
    finally:
        consumer.close()
    return found
