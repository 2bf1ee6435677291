"""A topic read to the end of each partition by three clients: Java's, librdkafka and ours.

Of each partition a line is given: how many records came, a checksum of their offsets and values, and what ended the
reading before the end, if anything did.
"""

from __future__ import annotations

import asyncio
import subprocess
import zlib
from pathlib import Path
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaError

from kavka.client import Consumer, TopicPartition
from kavka_compat.artifacts import cache_directory, jars, java

_PROGRAM: Final = Path(__file__).resolve().parent.parent / "java" / "ReadPartitions.java"


class _Read:
    """The records that came of one partition so far: their count and checksum."""

    def __init__(self) -> None:
        self.count = 0
        self.checksum = 0
        self.ended = ""

    def add(self, offset: int, value: bytes | None) -> None:
        self.count += 1
        self.checksum = zlib.crc32(b"%d:" % offset, self.checksum)
        self.checksum = zlib.crc32(value or b"", self.checksum)

    def __str__(self) -> str:
        return f"{self.count} {self.checksum}{self.ended}"


def read_by_java(release: str, address: str, topic: str, partitions: int) -> list[str]:
    """Read with the consumer of a release of Apache Kafka."""
    jars(release)
    ran = subprocess.run(
        [
            java(),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{cache_directory(release)}/*",
            str(_PROGRAM),
            address,
            topic,
            str(partitions),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def read_by_librdkafka(
    address: str, topic: str, partitions: int, silence_s: float = 30
) -> list[str]:
    """Read with confluent-kafka; partitions of which nothing comes for a while end in silence."""
    reads = [_Read() for _ in range(partitions)]
    left = set(range(partitions))
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in left])
    try:
        while left:
            message = consumer.poll(silence_s)
            if message is None:
                for index in left:
                    reads[index].ended = " silence"
                break
            error = message.error()
            if error is None:
                reads[message.partition()].add(message.offset(), message.value())
            else:
                if error.code() != KafkaError._PARTITION_EOF:
                    reads[message.partition()].ended = f" {error.name()}"
                left.discard(message.partition())
    finally:
        consumer.close()
    return [str(read) for read in reads]


def read_by_kavka(address: str, topic: str, partitions: int) -> list[str]:
    """Read with our own consumer."""
    return asyncio.run(_read(address, topic, partitions))


async def _read(address: str, topic: str, partitions: int) -> list[str]:
    wanted = [TopicPartition(topic, index) for index in range(partitions)]
    reads = {topic_partition: _Read() for topic_partition in wanted}
    settings = {"bootstrap.servers": address, "auto.offset.reset": "earliest"}
    async with Consumer(settings) as consumer:
        ends = await consumer.end_offsets(wanted)
        consumer.assign(wanted)
        left = set(wanted)
        while left:
            for batch in await consumer.poll(timeout_ms=30_000):
                for record in batch.records():
                    reads[TopicPartition(record.topic, record.partition)].add(
                        record.offset, record.value
                    )
            left = {
                topic_partition
                for topic_partition in left
                if await consumer.position(topic_partition) < ends[topic_partition]
            }
    return [str(reads[topic_partition]) for topic_partition in wanted]
