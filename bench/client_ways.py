"""One way of one Python client, as a process that `clients.py` starts: it warms up, then works for each line it reads.

A way is a generator function: it connects, yields a function that produces or consumes once, and closes. Awaited
deliveries are awaited in groups of 10,000. Where records are waited for one by one, the function returns how long each
took: until it was acknowledged, or, in a round trip, until a consumer of the same client and process had it.
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
HEADERS = [("kind", b"order"), ("trace", b"0123456789abcdef")]
FETCH_WAIT_MS = 50
"""The wait of a fetch at the end of the log (default: 500): a round begins by seeking, and the answer
to the last fetch of the round before is waited for first. It is not part of reading."""
ONE_AT_A_TIME = "one at a time"
ROUND_TRIP = "round trip"
Seconds = list[float]
"""The time that each record took."""
Work = Callable[[], Seconds | None]
Job = dict[str, Any]


def kavka_settings(job: Job) -> dict[str, Any]:
    """Return the settings of kavka's and confluent-kafka's producers."""
    settings = {"bootstrap.servers": job["bootstrap"]}
    if job["defaults"]:
        return settings
    chosen = {"acks": "1", "linger.ms": linger_ms(job), "batch.size": job["batch"]}
    return settings | chosen | {"compression.type": job["codec"]}


def linger_ms(job: Job) -> int:
    """Return how long batches wait for more records: not where each is waited for."""
    return 0 if job["way"].endswith((ONE_AT_A_TIME, ROUND_TRIP)) else 5


def each_timed(count: int, step: Callable[[], object]) -> Seconds:
    """Take a step so many times, and return how long each took."""
    took = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        took.append(time.perf_counter() - start)
    return took


async def each_awaited(count: int, step: Callable[[], Awaitable[object]]) -> Seconds:
    """Await a step so many times, and return how long each took."""
    took = []
    for _ in range(count):
        start = time.perf_counter()
        await step()
        took.append(time.perf_counter() - start)
    return took


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
    ways: dict[str, Callable[[Any, Job], Awaitable[Seconds | None]]] = {
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
    for key in job["keys"]:
        try:
            take(topic, value, key, headers=HEADERS)
        except BufferFull:
            await producer.wait_for_memory()
            take(topic, value, key, headers=HEADERS)
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


async def send_one_at_a_time(producer: Any, job: Job) -> Seconds:
    """Send a record when the one before is acknowledged."""
    topic, value, send = job["topic"], job["value"], producer.send
    return await each_awaited(job["count"], lambda: send(topic, value))


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
    keys = job["keys"] if job["way"].endswith(("keyed", "headers")) else [None] * job["count"]
    options = {"headers": HEADERS} if job["way"].endswith("headers") else {}

    def produce_and_wait() -> None:
        producer.produce(job["topic"], job["value"])
        assert producer.flush(120) == 0

    def work_one_at_a_time() -> Seconds:
        return each_timed(job["count"], produce_and_wait)

    def work() -> None:
        topic, value, produce = job["topic"], job["value"], producer.produce
        for key in keys:
            while True:
                try:
                    produce(topic, value, key, **options)
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
        chosen = {"acks": 1, "linger_ms": linger_ms(job), "max_batch_size": job["batch"]}
        chosen["compression_type"] = codec
    loop = asyncio.new_event_loop()

    async def start() -> Any:
        producer = AIOKafkaProducer(bootstrap_servers=job["bootstrap"], **chosen)
        await producer.start()
        return producer

    producer = loop.run_until_complete(start())
    topic, value = job["topic"], job["value"]

    async def work_one_at_a_time() -> Seconds:
        return await each_awaited(job["count"], lambda: producer.send_and_wait(topic, value))

    async def work() -> None:
        for _ in range(0, job["count"], GROUP):
            if job["way"].endswith("send_and_wait"):
                await asyncio.gather(*[producer.send_and_wait(topic, value) for _ in range(GROUP)])
            else:
                await asyncio.gather(*[await producer.send(topic, value) for _ in range(GROUP)])

    chosen_work = work_one_at_a_time if job["way"].endswith(ONE_AT_A_TIME) else work
    yield lambda: loop.run_until_complete(chosen_work())
    loop.run_until_complete(producer.stop())


def kafka_python_produce(job: Job) -> Iterator[Work]:
    """Produce with kafka-python."""
    from kafka import KafkaProducer

    chosen: dict[str, Any] = {}
    if not job["defaults"]:
        codec = None if job["codec"] == "none" else job["codec"]
        chosen = {"acks": 1, "linger_ms": linger_ms(job), "batch_size": job["batch"]}
        chosen["compression_type"] = codec
    producer = KafkaProducer(bootstrap_servers=job["bootstrap"], **chosen)

    def work_one_at_a_time() -> Seconds:
        return each_timed(job["count"], lambda: producer.send(job["topic"], job["value"]).get(60))

    def work() -> None:
        for _ in range(job["count"]):
            producer.send(job["topic"], job["value"])
        producer.flush()

    yield work_one_at_a_time if job["way"].endswith(ONE_AT_A_TIME) else work
    producer.close()


# Consumers


def kavka_consume(job: Job) -> Iterator[Work]:
    """Consume with kavka: as records, by iteration, as columns or as Arrow."""
    from kavka.client import Consumer

    settings: dict[str, Any] = {
        "bootstrap.servers": job["bootstrap"],
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": FETCH_WAIT_MS,
    }
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
    """Consume with confluent-kafka, in bunches.

    With its defaults librdkafka fetches nothing for a second where 100,000 records are waiting in the client.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {
        "bootstrap.servers": job["bootstrap"],
        "group.id": f"bench-{job['topic']}",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": FETCH_WAIT_MS,
    }
    if not job["defaults"]:
        settings["fetch.queue.backoff.ms"] = 1
    consumer = Consumer(settings)
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
            job["topic"],
            bootstrap_servers=job["bootstrap"],
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_WAIT_MS,
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

    consumer = KafkaConsumer(
        bootstrap_servers=job["bootstrap"],
        enable_auto_commit=False,
        fetch_max_wait_ms=FETCH_WAIT_MS,
    )
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


# Round trips


def kavka_round_trips(job: Job) -> Iterator[Work]:
    """Produce a record and wait for it with a consumer, with kavka."""
    from kavka.client import Consumer, Producer, TopicPartition

    loop = asyncio.new_event_loop()
    topic, value = job["topic"], job["value"]
    producer = Producer(kavka_settings(job))
    consumer = Consumer({"bootstrap.servers": job["bootstrap"], "auto.offset.reset": "earliest"})
    loop.run_until_complete(producer.start())
    loop.run_until_complete(consumer.start())
    consumer.assign([TopicPartition(topic, 0)])

    async def round_trip() -> None:
        producer.append(topic, value)
        await anext(consumer)

    loop.run_until_complete(producer.partitions_for(topic))
    yield lambda: loop.run_until_complete(each_awaited(job["count"], round_trip))
    loop.run_until_complete(consumer.close())
    loop.run_until_complete(producer.close())


def confluent_round_trips(job: Job) -> Iterator[Work]:
    """Produce a record and wait for it with a consumer, with confluent-kafka."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

    topic, value = job["topic"], job["value"]
    producer = Producer(kavka_settings(job))
    reading = {"bootstrap.servers": job["bootstrap"], "group.id": topic}
    consumer = Consumer(reading | {"enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def work() -> Seconds:
        took = []
        for _ in range(job["count"]):
            start = time.perf_counter()
            producer.produce(topic, value)
            message = consumer.poll(60)
            took.append(time.perf_counter() - start)
            assert message is not None, "no record within a minute"
            assert message.error() is None, message.error()
            producer.poll(0)
        return took

    yield work
    assert producer.flush(120) == 0
    consumer.close()


def aiokafka_round_trips(job: Job) -> Iterator[Work]:
    """Produce a record and wait for it with a consumer, with aiokafka."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    loop = asyncio.new_event_loop()
    topic, value = job["topic"], job["value"]
    chosen: dict[str, Any] = {}
    if not job["defaults"]:
        codec = None if job["codec"] == "none" else job["codec"]
        chosen = {"acks": 1, "max_batch_size": job["batch"], "compression_type": codec}

    async def start() -> tuple[Any, Any]:
        producer = AIOKafkaProducer(bootstrap_servers=job["bootstrap"], **chosen)
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=job["bootstrap"], auto_offset_reset="earliest"
        )
        await producer.start()
        await consumer.start()
        return producer, consumer

    producer, consumer = loop.run_until_complete(start())

    async def round_trip() -> None:
        await producer.send(topic, value)
        await consumer.getone()

    yield lambda: loop.run_until_complete(each_awaited(job["count"], round_trip))
    loop.run_until_complete(consumer.stop())
    loop.run_until_complete(producer.stop())


def kafka_python_round_trips(job: Job) -> Iterator[Work]:
    """Produce a record and wait for it with a consumer, with kafka-python."""
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    topic, value = job["topic"], job["value"]
    chosen: dict[str, Any] = {}
    if not job["defaults"]:
        codec = None if job["codec"] == "none" else job["codec"]
        chosen = {"acks": 1, "batch_size": job["batch"], "compression_type": codec}
    producer = KafkaProducer(bootstrap_servers=job["bootstrap"], **chosen)
    consumer = KafkaConsumer(
        bootstrap_servers=job["bootstrap"], enable_auto_commit=False, auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(topic, 0)])

    def round_trip() -> None:
        producer.send(topic, value)
        next(consumer)

    yield lambda: each_timed(job["count"], round_trip)
    consumer.close()
    producer.close()


CONSUMED = ("records", "iteration", "columns", "arrow", "consume", "getmany", "poll")
Client = tuple[Callable[[Job], Iterator[Work]], ...]
CLIENTS: dict[str, Client] = {
    "kavka": (kavka_produce, kavka_consume, kavka_round_trips),
    "confluent": (confluent_produce, confluent_consume, confluent_round_trips),
    "aiokafka": (aiokafka_produce, aiokafka_consume, aiokafka_round_trips),
    "kafka-python": (kafka_python_produce, kafka_python_consume, kafka_python_round_trips),
}
"""Functions by which each client produces, consumes and does both."""


def function_of(way: str) -> Callable[[Job], Iterator[Work]]:
    """Return the generator function of a way, as `kavka append`."""
    if way == "kavka append blocking":
        return kavka_blocking
    client, _, rest = way.partition(" ")
    produce, consume, round_trips = CLIENTS[client]
    if rest == ROUND_TRIP:
        return round_trips
    return consume if rest in CONSUMED else produce


def percentiles(took: Seconds) -> tuple[float, float]:
    """Return the median and the 99th percentile, in milliseconds."""
    ordered = sorted(took)
    return ordered[len(ordered) // 2] * 1000, ordered[len(ordered) * 99 // 100] * 1000


def main() -> None:
    """Connect, work once to warm up, then once for each line: print seconds, CPU seconds, peak KiB and latencies."""
    warnings.simplefilter("ignore")
    job = json.loads(sys.argv[1])
    job["value"] = b"x" * job["size"]
    job["keys"] = keys_of(job["count"])
    steps = function_of(job["way"])(job)
    work = next(steps)
    work()
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        start, before = time.perf_counter(), time.process_time()
        took = work()
        seconds, cpu = time.perf_counter() - start, time.process_time() - before
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        latencies = percentiles(took) if took else None
        print(json.dumps([seconds, cpu, peak, latencies]), flush=True)
    next(steps, None)


if __name__ == "__main__":
    main()
