"""Real consumers read from the follower in their rack (KIP-392), and from the leader when it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import TopicPartition as Assigned

from kavka.client import Consumer
from kavka.ids import TopicPartition

Cluster = Any
Run = Callable[..., None]
Next = Callable[[], Any]
"""Wait for the next value."""

T0 = TopicPartition("t", 0)
LEADER, NEAR, FAR = 1, 2, 3
PATIENCE_S = 60
SETTINGS = {
    "broker__rack": "rack-%d",
    "replica__selector__class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


@asynccontextmanager
async def our_consumer(servers: str) -> AsyncIterator[Next]:
    settings = {"bootstrap.servers": servers, "client.rack": f"rack-{NEAR}"}
    async with Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([T0])

        async def value() -> bytes | None:
            record = await anext(aiter(consumer))
            return record.value

        yield value


@asynccontextmanager
async def librdkafka(servers: str) -> AsyncIterator[Next]:
    consumer = LibrdkafkaConsumer(
        {
            "bootstrap.servers": servers,
            "client.rack": f"rack-{NEAR}",
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.assign([Assigned("t", 0, 0)])

    async def value() -> bytes | None:
        while True:
            message = await asyncio.to_thread(consumer.poll, 0.2)
            if message is not None and message.error() is None:
                return message.value()

    try:
        yield value
    finally:
        await asyncio.to_thread(consumer.close)  # the brokers run in this loop


@pytest.mark.parametrize("client", [our_consumer, librdkafka])
def test_a_consumer_reads_in_its_rack(run: Run, client: Any) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [LEADER, NEAR, FAR])

        def out(number: int) -> int:
            return int(cluster.brokers[number].replica_manager.find(T0).traffic.bytes_out)

        servers = ",".join(f"127.0.0.1:{cluster.ports[n]}" for n in (LEADER, NEAR, FAR))
        await cluster.must_produce(T0, b"first")
        async with client(servers) as next_value, asyncio.timeout(PATIENCE_S):
            assert await next_value() == b"first"
            before = out(LEADER)
            for number in range(20):
                await cluster.must_produce(T0, b"%d" % number)
                assert await next_value() == b"%d" % number
            assert out(NEAR) > 0
            assert (out(LEADER), out(FAR)) == (before, 0)
            await cluster.kill(NEAR)
            await cluster.until(lambda: cluster.in_sync(T0) == {LEADER, FAR})
            await cluster.must_produce(T0, b"last")
            assert await next_value() == b"last"
            assert out(LEADER) > before

    run(story, **SETTINGS)
