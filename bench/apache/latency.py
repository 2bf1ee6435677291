"""The way of single records from a producer to a waiting consumer, in finer units than Kafka's tool prints."""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator
from contextlib import closing
from itertools import islice

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
    warm_up = -(-records // 10)
    with closing(round_trips_ms(bootstrap, topic)) as trips:
        taken = list(islice(trips, warm_up, warm_up + records))
    hundredths = statistics.quantiles(taken, n=100)
    return hundredths[49], hundredths[98]


def round_trips_ms(bootstrap: str, topic: str, patience_s: float = 20) -> Generator[float]:
    """Send a record to the topic's partition 0 and wait for it, acks=all, as often as asked; yield each time taken.

    Close it, so that its clients are closed. Raise RuntimeError for a record that does not come in `patience_s`.
    """
    at = {"bootstrap.servers": bootstrap, "log_level": 4}
    with (
        Producer({**at, "acks": "all", "linger.ms": 0}) as producer,
        Consumer({**at, "group.id": "latency", "fetch.wait.max.ms": 500}) as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0, 0)])
        try:
            while True:
                began = time.perf_counter()
                producer.produce(topic, bytes(100))
                producer.poll(0)
                message = consumer.poll(patience_s)
                if message is None or message.error():
                    raise RuntimeError("a record did not come")
                yield (time.perf_counter() - began) * 1000
        finally:
            producer.flush(10)
