"""One way of one Python client, as a process that `clients.py` starts: it warms up, then works for each line it reads.

A way is a generator function: it connects, yields a function that produces or consumes once, and closes. Awaited
deliveries are awaited in groups of 10,000.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

GROUP = 10_000
ONE_AT_A_TIME = "one at a time"
Work = Callable[[], object]
Job = dict[str, Any]


def kavka_settings(job: Job) -> dict[str, Any]:
    """Return the settings of kavka's and confluent-kafka's producers."""
    settings = {"bootstrap.servers": job["bootstrap"]}
    if job["defaults"]:
        return settings
    linger_ms = 0 if job["way"].endswith(ONE_AT_A_TIME) else 5
    chosen = {"acks": "1", "linger.ms": linger_ms, "batch.size": job["batch"]}
    return settings | chosen | {"compression.type": job["codec"]}


def keys_of(count: int) -> list[bytes]:
    """Return keys, of which a thousand are different."""
    return [b"key-%d" % (index % 1000) for index in range(count)]


# Producers


def kavka_produce(job: Job) -> Iterator[Work]:
    """Produce with kavka's asynchronous producer."""
    from kavka.client import Producer

    loop = asyncio.new_event_loop()
    producer = Producer(kavka_settings(job))
    loop.run_until_complete(producer.start())
    loop.run_until_complete(producer.partitions_for(job["topic"]))
    ways: dict[str, Callable[[Any, Job], Awaitable[None]]] = {
        "append": append,
        "append keyed": append_keyed,
        "append headers": append_headers,
        "future each": append_futures,
        "awaited": send_awaited,
        "send_many": send_many,
        "one at a time": send_one_at_a_time,
    }
    work = ways[job["way"].removeprefix("kavka ")]
    yield lambda: loop.run_until_complete(work(producer, job))
    loop.run_until_complete(producer.close())


async def append(producer: Any, job: Job) -> None:
    """Append one by one."""
    from kavka.client import BufferFull

    topic, value, take = job["topic"], job["value"], producer.append
    for _ in range(job["count"]):
        try:
            take(topic, value)
        except BufferFull:
            await producer.wait_for_memory()
            take(topic, value)
    await producer.flush()


async def append_keyed(producer: Any, job: Job) -> None:
    """Append one by one, with keys."""
    from kavka.client import BufferFull

    topic, value, take = job["topic"], job["value"], producer.append
    for key in job["keys"]:
        try:
            take(topic, value, key)
        except BufferFull:
            await producer.wait_for_memory()
            take(topic, value, key)
    await producer.flush()


async def append_headers(producer: Any, job: Job) -> None:
    """Append one by one, with keys and two headers."""
    from kavka.client import BufferFull

    topic, value, take = job["topic"], job["value"], producer.append
    headers = [("kind", b"order"), ("trace", b"0123456789abcdef")]
    for key in job["keys"]:
        try:
            take(topic, value, key, headers=headers)
        except BufferFull:
            await producer.wait_for_memory()
            take(topic, value, key, headers=headers)
    await producer.flush()


async def append_futures(producer: Any, job: Job) -> None:
    """Append with a future for each record, awaited in groups."""
    topic, value, take = job["topic"], job["value"], producer.append
    for _ in range(0, job["count"], GROUP):
        futures = [take(topic, value, want_future=True) for _ in range(GROUP)]
        await asyncio.gather(*futures)


async def send_awaited(producer: Any, job: Job) -> None:
    """Send with `send`, which waits, in groups."""
    topic, value, send = job["topic"], job["value"], producer.send
    for _ in range(0, job["count"], GROUP):
        await asyncio.gather(*[send(topic, value) for _ in range(GROUP)])


async def send_one_at_a_time(producer: Any, job: Job) -> None:
    """Send a record when the one before is acknowledged."""
    topic, value, send = job["topic"], job["value"], producer.send
    for _ in range(job["count"]):
        await send(topic, value)


async def send_many(producer: Any, job: Job) -> None:
    """Send in groups, each in one call."""
    pairs = [(None, job["value"])] * GROUP
    for _ in range(0, job["count"], GROUP):
        await producer.send_many(job["topic"], pairs)


def kavka_blocking(job: Job) -> Iterator[Work]:
    """Produce with kavka's blocking producer."""
    from kavka.client.blocking import Producer

    producer = Producer(kavka_settings(job))

    def work() -> None:
        topic, value, take = job["topic"], job["value"], producer.append
        for _ in range(job["count"]):
            take(topic, value)
        producer.flush()

    yield work
    producer.close()


def confluent_produce(job: Job) -> Iterator[Work]:
    """Produce with confluent-kafka."""
    from confluent_kafka import Producer

    producer = Producer(kavka_settings(job))
    keys = job["keys"] if job["way"].endswith("keyed") else [None] * job["count"]

    def work_one_at_a_time() -> None:
        for _ in range(job["count"]):
            producer.produce(job["topic"], job["value"])
            assert producer.flush(120) == 0

    def work() -> None:
        topic, value, produce = job["topic"], job["value"], producer.produce
        for key in keys:
            while True:
                try:
                    produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.01)
        assert producer.flush(120) == 0

    yield work_one_at_a_time if job["way"].endswith(ONE_AT_A_TIME) else work


def aiokafka_produce(job: Job) -> Iterator[Work]:
    """Produce with aiokafka: `send` with its futures awaited in groups, or `send_and_wait` in groups."""
    from aiokafka import AIOKafkaProducer

    chosen: dict[str, Any] = {}
    if not job["defaults"]:
        codec = None if job["codec"] == "none" else job["codec"]
        linger_ms = 0 if job["way"].endswith(ONE_AT_A_TIME) else 5
        chosen = {"acks": 1, "linger_ms": linger_ms, "max_batch_size": job["batch"]}
        chosen["compression_type"] = codec
    loop = asyncio.new_event_loop()

    async def start() -> Any:
        producer = AIOKafkaProducer(bootstrap_servers=job["bootstrap"], **chosen)
        await producer.start()
        return producer

    producer = loop.run_until_complete(start())
    topic, value = job["topic"], job["value"]

    async def work() -> None:
        if job["way"].endswith(ONE_AT_A_TIME):
            for _ in range(job["count"]):
                await producer.send_and_wait(topic, value)
            return
        for _ in range(0, job["count"], GROUP):
            if job["way"].endswith("send_and_wait"):
                await asyncio.gather(*[producer.send_and_wait(topic, value) for _ in range(GROUP)])
            else:
                await asyncio.gather(*[await producer.send(topic, value) for _ in range(GROUP)])

    yield lambda: loop.run_until_complete(work())
    loop.run_until_complete(producer.stop())


def kafka_python_produce(job: Job) -> Iterator[Work]:
    """Produce with kafka-python."""
    from kafka import KafkaProducer

    chosen: dict[str, Any] = {}
    if not job["defaults"]:
        codec = None if job["codec"] == "none" else job["codec"]
        linger_ms = 0 if job["way"].endswith(ONE_AT_A_TIME) else 5
        chosen = {"acks": 1, "linger_ms": linger_ms, "batch_size": job["batch"]}
        chosen["compression_type"] = codec
    producer = KafkaProducer(bootstrap_servers=job["bootstrap"], **chosen)

    def work() -> None:
        for _ in range(job["count"]):
            sent = producer.send(job["topic"], job["value"])
            if job["way"].endswith(ONE_AT_A_TIME):
                sent.get(60)
        producer.flush()

    yield work
    producer.close()


# Consumers


def kavka_consume(job: Job) -> Iterator[Work]:
    """Consume with kavka: as records, by iteration, as columns or as Arrow."""
    from kavka.client import Consumer

    settings = {"bootstrap.servers": job["bootstrap"], "auto.offset.reset": "earliest"}
    if not job["defaults"]:
        settings["max.poll.records"] = 20_000
    loop = asyncio.new_event_loop()
    consumer = Consumer(settings)
    loop.run_until_complete(consumer.start())
    consumer.assign(loop.run_until_complete(consumer.partitions_for(job["topic"])))
    way = job["way"].removeprefix("kavka ")
    sizes: dict[str, Callable[[Any], int]] = {
        "records": lambda batches: len(batches.records()),
        "columns": lambda batches: batches.columns().count,
        "arrow": lambda batches: batches.to_arrow().num_rows,
    }

    async def poll() -> None:
        consumer.seek_to_beginning()
        size, seen = sizes[way], 0
        while seen < job["count"]:
            for batches in await consumer.poll(1000):
                seen += size(batches)

    async def iterate() -> None:
        consumer.seek_to_beginning()
        seen = 0
        async for _ in consumer:
            seen += 1
            if seen == job["count"]:
                return

    work = iterate if way == "iteration" else poll
    yield lambda: loop.run_until_complete(work())
    loop.run_until_complete(consumer.close())


def confluent_consume(job: Job) -> Iterator[Work]:
    """Consume with confluent-kafka, in bunches."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": job["bootstrap"],
            "group.id": f"bench-{job['topic']}",
            "enable.auto.commit": False,
        }
    )
    topic = job["topic"]
    partitions = consumer.list_topics(topic).topics[topic].partitions

    def work() -> None:
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        seen = 0
        while seen < job["count"]:
            found = consumer.consume(GROUP, 1.0)
            seen += sum(1 for message in found if message.value() is not None)

    yield work
    consumer.close()


def aiokafka_consume(job: Job) -> Iterator[Work]:
    """Consume with aiokafka, in bunches."""
    from aiokafka import AIOKafkaConsumer

    loop = asyncio.new_event_loop()

    async def start() -> Any:
        consumer = AIOKafkaConsumer(
            job["topic"], bootstrap_servers=job["bootstrap"], auto_offset_reset="earliest"
        )
        await consumer.start()
        return consumer

    consumer = loop.run_until_complete(start())

    async def work() -> None:
        await consumer.seek_to_beginning()
        seen = 0
        while seen < job["count"]:
            found = await consumer.getmany(timeout_ms=1000)
            seen += sum(len(records) for records in found.values())

    yield lambda: loop.run_until_complete(work())
    loop.run_until_complete(consumer.stop())


def kafka_python_consume(job: Job) -> Iterator[Work]:
    """Consume with kafka-python, in bunches."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=job["bootstrap"], enable_auto_commit=False)
    partitions = consumer.partitions_for_topic(job["topic"])
    consumer.assign([TopicPartition(job["topic"], partition) for partition in partitions])

    def work() -> None:
        consumer.seek_to_beginning()
        seen = 0
        while seen < job["count"]:
            found = consumer.poll(timeout_ms=1000, max_records=GROUP)
            seen += sum(len(records) for records in found.values())

    yield work
    consumer.close()


CONSUMED = ("records", "iteration", "columns", "arrow", "consume", "getmany", "poll")
CLIENTS: dict[tuple[str, bool], Callable[[Job], Iterator[Work]]] = {
    ("kavka", False): kavka_produce,
    ("kavka", True): kavka_consume,
    ("confluent", False): confluent_produce,
    ("confluent", True): confluent_consume,
    ("aiokafka", False): aiokafka_produce,
    ("aiokafka", True): aiokafka_consume,
    ("kafka-python", False): kafka_python_produce,
    ("kafka-python", True): kafka_python_consume,
}
"""By client, and whether it consumes."""


def main() -> None:
    """Connect, work once to warm up, then once for each line: print seconds, CPU seconds and peak KiB."""
    warnings.simplefilter("ignore")
    job = json.loads(sys.argv[1])
    job["value"] = b"x" * job["size"]
    job["keys"] = keys_of(job["count"])
    client, _, way = job["way"].partition(" ")
    make = kavka_blocking if job["way"] == "kavka append blocking" else None
    steps = (make or CLIENTS[client, way in CONSUMED])(job)
    work = next(steps)
    work()
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        start, before = time.perf_counter(), time.process_time()
        work()
        seconds, cpu = time.perf_counter() - start, time.process_time() - before
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps([seconds, cpu, peak]), flush=True)
    next(steps, None)


if __name__ == "__main__":
    main()
