"""The way of single records from a producer to a waiting consumer, in finer units than Kafka's tool prints."""

from __future__ import annotations

import statistics
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.brokers import Broker


def end_to_end_ms(broker: Broker, records: int, topic: str) -> tuple[float, float]:
    """Measure on a topic of its own with one replica; return the 50th and 99th percentile."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    found = percentiles_ms(broker.bootstrap, records, topic)
    admin.delete_topics([topic])[topic].result(30)
    return found


def percentiles_ms(bootstrap: str, records: int, topic: str) -> tuple[float, float]:
    """Send one record after the other with librdkafka, acks=all; return the 50th and 99th percentile."""
    at = {"bootstrap.servers": bootstrap}
    taken: list[float] = []
    with (
        Producer({**at, "acks": "all", "linger.ms": 0}) as producer,
        Consumer({**at, "group.id": "latency", "fetch.wait.max.ms": 500}) as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0, 0)])
        for number in range(-records // 10, records):
            started = time.perf_counter()
            producer.produce(topic, bytes(100))
            producer.poll(0)
            message = consumer.poll(20)
            if message is None or message.error():
                raise RuntimeError("a record did not come")
            if number >= 0:  # those before are the warm-up
                taken.append((time.perf_counter() - started) * 1000)
        producer.flush(10)
    hundredths = statistics.quantiles(taken, n=100)
    return hundredths[49], hundredths[98]
