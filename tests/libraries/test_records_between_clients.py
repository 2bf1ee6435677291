"""Records that our producer writes are read by confluent-kafka and aiokafka; serializers of others go here."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
from confluent_kafka.serialization import StringDeserializer, StringSerializer
from kafka.serializer import JsonSerializer

from kavka.client import PlainJsonSerializer, TopicPartition, blocking
from kavka.testing.local_cluster import LocalCluster

HEADERS = [("a", b"1"), ("none", None), ("é", b"\0")]


def test_headers_keys_and_values_arrive_in_other_clients(tmp_path: Path) -> None:
    with LocalCluster(tmp_path) as cluster:
        at = cluster.bootstrap_servers
        writing = {
            "bootstrap.servers": at,
            "key.serializer": StringSerializer("utf_8"),  # Confluent's, with its context
            "value.serializer": PlainJsonSerializer(),
        }
        with blocking.Producer(writing) as producer:
            producer.send("t", {"n": 1}, "k", headers=dict(HEADERS))

        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": at, "group.id": "theirs", "auto.offset.reset": "earliest"}
        )
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        message = consumer.poll(30)
        consumer.close()
        assert (message.key(), json.loads(message.value())) == (b"k", {"n": 1})
        assert message.headers() == HEADERS

        async def with_aiokafka() -> Any:
            reader = aiokafka.AIOKafkaConsumer(
                "t", bootstrap_servers=at, auto_offset_reset="earliest", group_id=None
            )
            await reader.start()
            try:
                return await asyncio.wait_for(reader.getone(), 30)
            finally:
                await reader.stop()

        record = asyncio.run(with_aiokafka())
        assert (record.key, json.loads(record.value)) == (b"k", {"n": 1})
        assert list(record.headers) == HEADERS

        reading = {
            "bootstrap.servers": at,
            "auto.offset.reset": "earliest",
            "key.deserializer": StringDeserializer("utf_8"),
            "value.deserializer": JsonSerializer(),  # kafka-python's, which reads as well
        }
        with blocking.Consumer(reading) as ours:
            ours.assign([TopicPartition("t", 0)])
            assert next(ours)[5:] == ("k", {"n": 1}, tuple(HEADERS))
