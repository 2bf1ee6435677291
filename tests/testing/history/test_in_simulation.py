"""The example of docs/reference/testing.md: programs of one's own in a simulated world, judged by their history."""

from __future__ import annotations

import asyncio

import pytest

from kavka.client import Admin, Consumer, NewTopic, Producer
from kavka.ids import TopicPartition
from kavka.simulation.cluster import BrokerNode
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.world import World
from kavka.testing.history import Poll, Record, Recorder, Send, Type, Verdict, check

AT = TopicPartition("orders", 0)
SERVERS = {"bootstrap.servers": "broker:9092"}
BROKER = {"broker.id": "0", "log.dirs": "/data", "listeners": "PLAINTEXT://broker:9092"}


def io_of(environment: SimEnvironment) -> dict[str, object]:
    return {
        "network": environment.network,
        "clock": environment.clock,
        "random": environment.random,
    }


class Run:
    """A broker that is killed twice while a producer and a consumer work."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.recorder = Recorder(lambda: int(self.world.loop.time() * 1e9))
        self.broker = BrokerNode(self.world, "broker", BROKER)
        self.set_up = asyncio.Event()

    async def play(self) -> None:
        serving = asyncio.ensure_future(self.broker.keep_running())
        try:
            await asyncio.sleep(1)
            writer = self.world.node("writer").start(self.write)
            reader = self.world.node("reader").start(self.read)
            for _ in range(2):
                await asyncio.sleep(3)
                self.broker.node.kill()
            await writer.ended
            await reader.ended
        finally:
            serving.cancel()

    async def write(self, environment: SimEnvironment) -> None:
        async with Admin(SERVERS, **io_of(environment)) as admin:  # type: ignore[arg-type]
            await admin.create_topics([NewTopic(AT.topic, 1, 1)])
        self.set_up.set()
        async with Producer(SERVERS, **io_of(environment)) as producer:  # type: ignore[arg-type]
            for number in range(200):
                send = Send(AT, f"record {number}")
                operation = self.recorder.invoke("writer", send)
                sent = await producer.send(AT.topic, send.value.encode(), partition=0)
                sent_action = Send(AT, send.value, sent.offset)
                self.recorder.complete(operation, "writer", Type.OK, sent_action)
                await asyncio.sleep(0.05)

    async def read(self, environment: SimEnvironment) -> None:
        await self.set_up.wait()
        settings = {**SERVERS, "auto.offset.reset": "earliest"}
        async with Consumer(settings, **io_of(environment)) as consumer:  # type: ignore[arg-type]
            consumer.assign([AT])
            found = 0
            while found < 200:
                operation = self.recorder.invoke("reader", Poll())
                batches = await consumer.poll()
                records = [
                    Record(b.topic_partition, r.offset, r.value.decode())
                    for b in batches
                    for r in b.records()
                ]
                self.recorder.complete(operation, "reader", Type.OK, Poll(tuple(records)))
                found += len(records)


def judged(seed: int) -> Verdict:
    run = Run(seed)
    run.world.run(run.play(), limit_s=600)
    return check(run.recorder.events)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_broker_that_is_killed_in_a_simulation_shows_no_anomaly(seed: int) -> None:
    verdict = judged(seed)
    assert verdict.findings == {}
    assert verdict.counts["sends ok"] == 200
    assert verdict.counts["records polled"] == 200
    assert verdict.unseen == {}
