"""A member of a consumer group as a process of its own: `python -m kavka_compat.member CLIENT BOOTSTRAP TOPIC GROUP`.

It writes one JSON line per event: `{"assigned": [0, 2]}` after each rebalance, `{"read": [partition, offset]}`
per record, whose offset is committed before the line is written.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

SESSION_TIMEOUT_MS = 2000


def _say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def _librdkafka(bootstrap: str, topic: str, group: str) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 300,
        }
    )
    consumer.subscribe(
        [topic], on_assign=lambda _, found: _say(assigned=sorted(p.partition for p in found))
    )
    while True:
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            consumer.commit(message, asynchronous=False)
            _say(read=[message.partition(), message.offset()])


def _kafka_python(bootstrap: str, topic: str, group: str) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        def on_partitions_assigned(self, assigned: Any) -> None:
            _say(assigned=sorted(p.partition for p in assigned))

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=300,
    )
    consumer.subscribe([topic], listener=Listener())
    while True:
        for batch in consumer.poll(timeout_ms=200).values():
            consumer.commit()
            for record in batch:
                _say(read=[record.partition, record.offset])


async def _aiokafka(bootstrap: str, topic: str, group: str) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        async def on_partitions_assigned(self, assigned: Any) -> None:
            _say(assigned=sorted(p.partition for p in assigned))

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=300,
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while True:
        batches = await consumer.getmany(timeout_ms=200)
        if batches:
            await consumer.commit()
        for batch in batches.values():
            for record in batch:
                _say(read=[record.partition, record.offset])


def main() -> None:
    """Be a member until killed."""
    client, bootstrap, topic, group = sys.argv[1:5]
    if client == "confluent-kafka":
        _librdkafka(bootstrap, topic, group)
    elif client == "kafka-python":
        _kafka_python(bootstrap, topic, group)
    else:
        asyncio.run(_aiokafka(bootstrap, topic, group))


if __name__ == "__main__":
    main()
