"""Four client libraries behind two calls, so that each test runs with every one of them."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, order=True)
class Message:
    """A record as a test writes and reads it."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Consumed:
    """A message and where it was found."""

    partition: int
    offset: int
    message: Message


class Client(Protocol):
    """The operations of every client."""

    name: str

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], codec: str, idempotent: bool
    ) -> None:
        """Write `messages` in order and return when all are acknowledged by all replicas."""

    def consume(
        self, bootstrap: str, topic: str, count: int, group: str | None = None
    ) -> list[Consumed]:
        """Read from the beginning until `count` messages came; with a group, commit them."""


class Librdkafka:
    """confluent-kafka."""

    name = "confluent-kafka"

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], codec: str, idempotent: bool
    ) -> None:
        """Write and flush; any error of a delivery is raised."""
        from confluent_kafka import KafkaException, Producer

        errors: list[Any] = []
        settings = {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "acks": "all",
            "linger.ms": 5,
        }
        with Producer(settings) as producer:
            for m in messages:
                producer.produce(
                    topic,
                    m.value,
                    m.key,
                    headers=list(m.headers) or None,
                    timestamp=m.timestamp_ms or 0,
                    on_delivery=lambda error, _: errors.append(error) if error else None,
                )
            assert producer.flush(_PATIENCE_SECONDS) == 0, "not everything was acknowledged"
        if errors:
            raise KafkaException(errors[0])

    def consume(
        self, bootstrap: str, topic: str, count: int, group: str | None = None
    ) -> list[Consumed]:
        """Subscribe with a group, else assign all partitions."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group or "unused",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        with Consumer(settings) as consumer:
            if group:
                consumer.subscribe([topic])
            else:
                partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
                consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
            found: list[Consumed] = []
            while len(found) < count:
                batch = consumer.consume(count - len(found), timeout=_PATIENCE_SECONDS)
                assert batch, f"only {len(found)} of {count} came"
                for m in batch:
                    if m.error():
                        raise KafkaException(m.error())
                    headers = tuple((k, v) for k, v in m.headers() or ())
                    message = Message(m.value(), m.key(), headers, m.timestamp()[1])
                    found.append(Consumed(m.partition(), m.offset(), message))
            if group:
                consumer.commit(asynchronous=False)
        return found


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], codec: str, idempotent: bool
    ) -> None:
        """Write and wait for every future."""
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=5,
        )
        try:
            futures = [
                producer.send(topic, m.value, m.key, list(m.headers), timestamp_ms=m.timestamp_ms)
                for m in messages
            ]
            for future in futures:
                future.get(_PATIENCE_SECONDS)
        finally:
            producer.close()

    def consume(
        self, bootstrap: str, topic: str, count: int, group: str | None = None
    ) -> list[Consumed]:
        """Subscribe; without a group all partitions are assigned by the library."""
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=int(_PATIENCE_SECONDS * 1000),
        )
        found: list[Consumed] = []
        try:
            for r in consumer:
                message = Message(r.value, r.key, tuple(r.headers), r.timestamp)
                found.append(Consumed(r.partition, r.offset, message))
                if len(found) == count:
                    break
            if group:
                consumer.commit()
        finally:
            consumer.close()
        assert len(found) == count, f"only {len(found)} of {count} came"
        return found


class Aiokafka:
    """aiokafka."""

    name = "aiokafka"

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], codec: str, idempotent: bool
    ) -> None:
        """Write and wait for every future."""
        asyncio.run(self._produce(bootstrap, topic, messages, codec, idempotent))

    async def _produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], codec: str, idempotent: bool
    ) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=5,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic, m.value, m.key, timestamp_ms=m.timestamp_ms, headers=list(m.headers)
                )
                for m in messages
            ]
            await asyncio.wait_for(asyncio.gather(*futures), _PATIENCE_SECONDS)
        finally:
            await producer.stop()

    def consume(
        self, bootstrap: str, topic: str, count: int, group: str | None = None
    ) -> list[Consumed]:
        """Subscribe; without a group all partitions are assigned by the library."""
        return asyncio.run(self._consume(bootstrap, topic, count, group))

    async def _consume(
        self, bootstrap: str, topic: str, count: int, group: str | None
    ) -> list[Consumed]:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        found: list[Consumed] = []
        try:
            while len(found) < count:
                r = await asyncio.wait_for(consumer.getone(), _PATIENCE_SECONDS)
                message = Message(r.value, r.key, tuple(r.headers), r.timestamp)
                found.append(Consumed(r.partition, r.offset, message))
            if group:
                await consumer.commit()
        finally:
            await consumer.stop()
        return found


class Kcat:
    """kcat, the command line of librdkafka; Debian's, which is an older librdkafka."""

    name = "kcat"

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], codec: str, idempotent: bool
    ) -> None:
        """Write one message a line; all must have the same headers, and keys or none."""
        first = messages[0]
        command = ["kcat", "-b", bootstrap, "-P", "-t", topic, "-z", codec, "-X", "acks=all"]
        command += ["-X", f"enable.idempotence={str(idempotent).lower()}"]
        for name, value in first.headers:
            command += ["-H", f"{name}={value.decode()}"]
        if first.key is not None:
            command += ["-K", "\t"]
        lines = [(m.key + b"\t" if m.key is not None else b"") + (m.value or b"") for m in messages]
        self._run(command, b"\n".join(lines) + b"\n")

    def consume(
        self, bootstrap: str, topic: str, count: int, group: str | None = None
    ) -> list[Consumed]:
        """Read with JSON as the output."""
        source = ["-G", group, topic] if group else ["-C", "-t", topic]
        limits = ["-c", str(count), "-o", "beginning", "-J", "-q", "-u"]
        if group:
            limits = ["-c", str(count), "-X", "auto.offset.reset=earliest", "-J", "-q", "-u"]
        output = self._run(["kcat", "-b", bootstrap, *limits, *source])
        return [self._consumed(json.loads(line)) for line in output.splitlines()]

    def _consumed(self, seen: dict[str, Any]) -> Consumed:
        flat = seen.get("headers") or []
        headers = tuple((flat[i], flat[i + 1].encode()) for i in range(0, len(flat), 2))
        key, value = (None if seen[n] is None else seen[n].encode() for n in ("key", "payload"))
        return Consumed(seen["partition"], seen["offset"], Message(value, key, headers, seen["ts"]))

    def _run(self, command: list[str], stdin: bytes = b"") -> str:
        done = subprocess.run(
            command, input=stdin, capture_output=True, timeout=_PATIENCE_SECONDS, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.decode()}"
        return done.stdout.decode()


CLIENTS: Sequence[Callable[[], Client]] = (Librdkafka, KafkaPython, Aiokafka, Kcat)
