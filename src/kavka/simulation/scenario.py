"""The scenario of a run, chosen by a seed: fault model, settings, topics, weather, and load (swarm testing).

Not only faults are random: sizes and settings are too, each within bounds that make the rare things frequent. Segments
of a few hundred bytes roll all the time, sessions end after seconds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from kavka.ids import TopicPartition
from kavka.simulation.faults import MODELS, FaultModel
from kavka.simulation.links import Weather
from kavka.simulation.random_streams import stream

BROKER = "broker-0"
PORT = 9092


@dataclass(frozen=True, slots=True)
class Scenario:
    """All choices of a seed."""

    model: FaultModel
    partitions: tuple[TopicPartition, ...]
    broker: dict[str, str]
    topic: dict[str, str]
    producer: dict[str, str]
    consumer: dict[str, str]
    weather: Weather
    producers: int
    records_each: int
    pace_s: float
    readers: int
    group_members: int
    has_admin: bool
    fault_interval_s: float
    safety_s: float
    """Seconds with faults; then everything heals."""
    liveness_s: float = 300.0
    """Maximum seconds of the work after that."""

    @property
    def servers(self) -> str:
        """Return `bootstrap.servers`."""
        return f"{BROKER}:{PORT}"

    @property
    def topics(self) -> dict[str, int]:
        """Topic names with their number of partitions."""
        counts: dict[str, int] = {}
        for topic, _ in self.partitions:
            counts[topic] = counts.get(topic, 0) + 1
        return counts

    @classmethod
    def of(cls, seed: int) -> Scenario:
        """Return the scenario of a seed."""
        source = stream(seed, "scenario")
        model = source.choice(MODELS)
        partitions = tuple(
            TopicPartition(topic, partition)
            for topic in ("orders", "clicks")[: source.randint(1, 2)]
            for partition in range(source.randint(1, 3))
        )
        return cls(
            model=model,
            partitions=partitions,
            broker=_broker_settings(source) | model.settings,
            topic=_topic_settings(source),
            producer=_producer_settings(source),
            consumer=_consumer_settings(source),
            weather=_weather(source),
            producers=source.randint(1, 3),
            records_each=source.choice([20, 60, 120]),
            pace_s=source.choice([0.0, 0.02, 0.2]),
            readers=source.randint(0, 2),
            group_members=source.choice([0, 1, 2, 3]),
            has_admin=source.random() < 0.5,
            fault_interval_s=source.choice([0.5, 1.5, 4.0]),
            safety_s=source.uniform(3.0, 15.0),
        )


def _broker_settings(source: random.Random) -> dict[str, str]:
    return {
        "broker.id": "0",
        "log.dirs": "/data",
        "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
        "offsets.topic.num.partitions": source.choice(["1", "3"]),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.segment.bytes": source.choice(["600", "100000"]),
        "group.initial.rebalance.delay.ms": source.choice(["0", "300", "3000"]),
        "group.min.session.timeout.ms": "500",
        "log.segment.delete.delay.ms": source.choice(["0", "5000"]),
        "log.retention.ms": "-1",
        "log.retention.check.interval.ms": source.choice(["700", "300000"]),
        "log.flush.offset.checkpoint.interval.ms": source.choice(["500", "60000"]),
        "log.flush.start.offset.checkpoint.interval.ms": source.choice(["500", "60000"]),
        "replica.high.watermark.checkpoint.interval.ms": source.choice(["500", "5000"]),
        "auto.create.topics.enable": source.choice(["true", "false"]),
    }


def _topic_settings(source: random.Random) -> dict[str, str]:
    return {
        "segment.bytes": source.choice(["400", "2000", "20000", "1000000"]),
        "index.interval.bytes": source.choice(["0", "200", "4096"]),
        "message.timestamp.type": source.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
        "compression.type": source.choice(["producer", "producer", "producer", "gzip"]),
    }


def _producer_settings(source: random.Random) -> dict[str, str]:
    return {
        "acks": "all",
        "enable.idempotence": "true",
        "linger.ms": source.choice(["0", "5", "50"]),
        "batch.size": source.choice(["0", "300", "16384"]),
        "compression.type": source.choice(["none", "none", "gzip", "lz4", "snappy", "zstd"]),
        "max.in.flight.requests.per.connection": source.choice(["1", "5"]),
        "request.timeout.ms": source.choice(["2000", "8000"]),
        "delivery.timeout.ms": source.choice(["15000", "600000"]),
        "max.block.ms": "600000",
    }


def _consumer_settings(source: random.Random) -> dict[str, str]:
    drawn = {
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "session.timeout.ms": source.choice(["3000", "10000"]),
        "heartbeat.interval.ms": "500",
        # Also the bound on a join: a host without power does not say that it will never answer.
        "max.poll.interval.ms": source.choice(["12000", "40000"]),
        "max.poll.records": source.choice(["3", "500"]),
        "fetch.min.bytes": source.choice(["1", "1000"]),
        "fetch.max.wait.ms": source.choice(["100", "1000"]),
        "max.partition.fetch.bytes": source.choice(["100", "2000", "1048576"]),
        "request.timeout.ms": "5000",
    }
    if int(drawn["max.partition.fetch.bytes"]) < int(drawn["fetch.min.bytes"]):
        # As with Kafka, each fetch of one partition waits for bytes that it may not get: a record a second.
        drawn["fetch.max.wait.ms"] = "100"
    return drawn


def _weather(source: random.Random) -> Weather:
    return Weather(
        latency_s=source.choice([0.0001, 0.002, 0.05]),
        jitter_s=source.choice([0.0001, 0.005, 0.05]),
        bytes_per_s=source.choice([1e5, 1e7, 1e9]),
        hiccup=source.choice([0.0, 0.02]),
        cutting=source.choice([0.0, 0.1, 0.5]),
        refuse=source.choice([0.0, 0.0, 0.05]),
        window_bytes=source.choice([2_000, 65_536]),
    )
