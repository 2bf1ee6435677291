"""Compare Python clients against one broker: 100-byte records produced and consumed, medians of alternating rounds.

    python bench/clients.py 127.0.0.1:9092 [--records 500000] [--rounds 5] [--partitions 6] [--size 100]

A round runs every client once, each in a process of its own, so that no client profits from the warm-up of
another. Prints thousands of records per second of wall time, and CPU seconds of the client per million records.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

PRODUCERS = (
    "kavka append",
    "kavka send_many",
    "kavka send_table",
    "confluent-kafka",
    "aiokafka",
    "kafka-python",
)
CONSUMERS = (
    "kavka columns",
    "kavka records",
    "kavka iteration",
    "confluent-kafka",
    "aiokafka",
    "kafka-python",
)


async def produce_kavka(way: str, bootstrap: str, topic: str, count: int, size: int) -> None:
    """Produce with kavka in one of its three ways."""
    from kavka.client import BufferFull, Producer

    value = b"x" * size
    async with Producer({"bootstrap.servers": bootstrap, "linger.ms": 5}) as producer:
        await producer.partitions_for(topic)
        if way == "append":
            append = producer.append
            for _ in range(count):
                try:
                    append(topic, value)
                except BufferFull:
                    await producer.wait_for_memory()
                    append(topic, value)
            await producer.flush()
        elif way == "send_many":
            for start in range(0, count, 10_000):
                await producer.send_many(topic, [(None, value)] * min(10_000, count - start))
        else:
            import pyarrow as pa

            for start in range(0, count, 50_000):
                rows = min(50_000, count - start)
                await producer.send_table(topic, pa.table({"value": pa.array([value] * rows)}))


def produce_confluent(bootstrap: str, topic: str, count: int, size: int) -> None:
    """Produce with confluent-kafka."""
    from confluent_kafka import Producer

    value = b"x" * size
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True}
    )
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(120) == 0


async def produce_aiokafka(bootstrap: str, topic: str, count: int, size: int) -> None:
    """Produce with aiokafka: its fastest documented way with single records, futures awaited in bunches."""
    from aiokafka import AIOKafkaProducer

    value = b"x" * size
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, enable_idempotence=True)
    await producer.start()
    futures = []
    for _ in range(count):
        futures.append(await producer.send(topic, value))
        if len(futures) == 10_000:
            await asyncio.gather(*futures)
            futures.clear()
    await producer.stop()


def produce_kafka_python(bootstrap: str, topic: str, count: int, size: int) -> None:
    """Produce with kafka-python."""
    from kafka import KafkaProducer

    value = b"x" * size
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
    for _ in range(count):
        producer.send(topic, value)
    producer.flush()
    producer.close()


async def consume_kavka(way: str, bootstrap: str, topic: str, count: int) -> None:
    """Consume with kavka in one of its three ways."""
    from kavka.client import Consumer

    settings = {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest",
        "max.poll.records": 20_000,
    }
    async with Consumer(settings) as consumer:
        consumer.assign(await consumer.partitions_for(topic))
        seen = 0
        if way == "iteration":
            async for _ in consumer:
                seen += 1
                if seen == count:
                    return
        while seen < count:
            for batches in await consumer.poll(1000):
                seen += batches.columns().count if way == "columns" else len(batches.records())


def consume_confluent(bootstrap: str, topic: str, count: int) -> None:
    """Consume with confluent-kafka, in bunches."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    )
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    seen = 0
    while seen < count:
        seen += sum(1 for message in consumer.consume(10_000, 1.0) if message.value() is not None)
    consumer.close()


async def consume_aiokafka(bootstrap: str, topic: str, count: int) -> None:
    """Consume with aiokafka, in bunches."""
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    seen = 0
    while seen < count:
        found = await consumer.getmany(timeout_ms=1000)
        seen += sum(len(records) for records in found.values())
    await consumer.stop()


def consume_kafka_python(bootstrap: str, topic: str, count: int) -> None:
    """Consume with kafka-python, in bunches."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    seen = 0
    while seen < count:
        found = consumer.poll(timeout_ms=1000, max_records=10_000)
        seen += sum(len(records) for records in found.values())
    consumer.close()


def work_of(kind: str, client: str, args: argparse.Namespace) -> Callable[[], None]:
    """Return what one process has to do."""
    bootstrap, topic, count = args.bootstrap, args.topic, args.records
    name, _, way = client.partition(" ")
    if kind == "produce":
        makers: dict[str, Callable[[], object]] = {
            "kavka": lambda: asyncio.run(produce_kavka(way, bootstrap, topic, count, args.size)),
            "confluent-kafka": lambda: produce_confluent(bootstrap, topic, count, args.size),
            "aiokafka": lambda: asyncio.run(produce_aiokafka(bootstrap, topic, count, args.size)),
            "kafka-python": lambda: produce_kafka_python(bootstrap, topic, count, args.size),
        }
    else:
        makers = {
            "kavka": lambda: asyncio.run(consume_kavka(way, bootstrap, topic, count)),
            "confluent-kafka": lambda: consume_confluent(bootstrap, topic, count),
            "aiokafka": lambda: asyncio.run(consume_aiokafka(bootstrap, topic, count)),
            "kafka-python": lambda: consume_kafka_python(bootstrap, topic, count),
        }
    chosen = makers[name]
    return lambda: (chosen(), None)[1]


def import_client(client: str) -> None:
    """Import before the clock starts."""
    modules = {
        "kavka": "kavka.client.producer kavka.client.consumer pyarrow",
        "confluent-kafka": "confluent_kafka",
    }
    for module in modules.get(client.split()[0], client.replace("kafka-python", "kafka")).split():
        __import__(module)


def one(args: argparse.Namespace) -> None:
    """Be one measured process: print seconds and CPU seconds as JSON."""
    warnings.simplefilter("ignore")
    import_client(args.client)
    work = work_of(args.kind, args.client, args)
    start, before = time.perf_counter(), os.times()
    work()
    after = os.times()
    cpu = after.user + after.system - before.user - before.system
    print(json.dumps([time.perf_counter() - start, cpu]))


def measure(kind: str, client: str, topic: str, args: argparse.Namespace) -> tuple[float, float]:
    """Run one client in a process and return its seconds and CPU seconds."""
    command = [
        sys.executable, __file__, args.bootstrap, "--one", "--kind", kind, "--client", client, "--topic", topic,
        "--records", str(args.records), "--size", str(args.size),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise SystemExit(f"{client} failed to {kind}:\n{done.stderr[-2000:]}")
    seconds, cpu = json.loads(done.stdout.splitlines()[-1])
    return seconds, cpu


async def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Create the topic of a run."""
    from kavka.client import Admin, NewTopic

    async with Admin({"bootstrap.servers": bootstrap}) as admin:
        outcome = (await admin.create_topics([NewTopic(topic, partitions, 1)]))[topic]
        if isinstance(outcome, Exception):
            raise outcome


def compare(args: argparse.Namespace) -> None:
    """Run all rounds and print the medians."""
    topic = f"bench-clients-{os.getpid()}"
    asyncio.run(create(args.bootstrap, topic, args.partitions))
    for kind, clients in (("produce", PRODUCERS), ("consume", CONSUMERS)):
        results: dict[str, list[tuple[float, float]]] = {client: [] for client in clients}
        for _ in range(args.rounds):
            for client in clients:
                results[client].append(measure(kind, client, topic, args))
        print(f"\n{kind}: {args.records} records of {args.size} bytes, median of {args.rounds}")
        for client, runs in results.items():
            seconds = statistics.median(run[0] for run in runs)
            cpu = statistics.median(run[1] for run in runs)
            rate, cost = args.records / seconds / 1000, cpu / args.records * 1e6
            print(f"  {client:20s} {rate:8.0f} k records/s  {cost:6.2f} CPU s per million")


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bootstrap", help="host:port of the broker")
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--size", type=int, default=100)
    for hidden in ("--kind", "--client", "--topic"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    (one if args.one else compare)(args)


if __name__ == "__main__":
    main()
