"""Idempotent producers with acks=all: each record is reported before it is sent and when it is acknowledged."""

from __future__ import annotations

import asyncio

from kavka.client.producer import Producer
from kavka.client.producer.accumulator import BufferFull
from kavka.client.producer.record_future import RecordMetadata
from kavka.ids import TopicPartition
from kavka.simulation.checker import Checker
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.events import Acknowledged, Refused, Sent
from kavka.simulation.load.client import ClientNode
from kavka.simulation.scenario import Scenario
from kavka.simulation.world import World


class ProducerNode(ClientNode):
    """Sends `records_each` records to random partitions."""

    def __init__(self, world: World, name: str, scenario: Scenario, checker: Checker) -> None:
        """Begin with every value to send."""
        super().__init__(world, name, scenario, checker)
        self._left = scenario.records_each

    async def work(self, environment: SimEnvironment) -> None:
        """Send what is left."""
        producer = environment.with_client(
            Producer(
                {
                    **self.scenario.producer,
                    "bootstrap.servers": self.scenario.servers,
                    "client.id": self.client_id,
                },
                network=environment.network,
                clock=environment.clock,
                random=environment.random,
            )
        )
        await self._start(producer)
        numbers: dict[TopicPartition, int] = {}
        for topic in self.scenario.topics:
            await self._known(producer, topic)
        while self._left:
            self._left -= 1
            partition = self.source.choice(self.scenario.partitions)
            number = numbers[partition] = numbers.get(partition, -1) + 1
            await self._send(producer, partition, number)
            if self.scenario.pace_s:
                await asyncio.sleep(self.source.expovariate(1 / self.scenario.pace_s))
        await producer.close()

    async def _start(self, producer: Producer) -> None:
        """Connect, trying again until the broker answers."""
        while True:
            try:
                await producer.start()
                return
            except OSError:
                await asyncio.sleep(0.3)

    async def _known(self, producer: Producer, topic: str) -> None:
        """Wait until the topic exists."""
        while True:
            try:
                await producer.partitions_for(topic)
                return
            except OSError:
                await asyncio.sleep(0.3)

    async def _send(self, producer: Producer, partition: TopicPartition, number: int) -> None:
        padding = "x" * self.source.choice([0, 0, 50, 300])
        value = f"{self.client_id}/{partition}/{number}/{padding}".encode()
        self.checker.observe(Sent(self.client_id, partition, number, value))
        while True:
            try:
                future = producer.append(
                    partition.topic, value, partition=partition.partition, want_future=True
                )
                break
            except BufferFull:
                await producer.wait_for_memory()
        assert future is not None
        future.add_done_callback(lambda done: self._answered(partition, value, done))

    def _answered(
        self, partition: TopicPartition, value: bytes, done: asyncio.Future[RecordMetadata]
    ) -> None:
        if done.cancelled():
            self.checker.observe(Refused(self.client_id, partition, value, "cancelled"))
        elif (error := done.exception()) is not None:
            self.world.trace.add(self.name, f"gave up on {value[:30]!r}: {error}")
            self.checker.observe(Refused(self.client_id, partition, value, str(error)))
        else:
            offset = done.result().offset
            self.checker.observe(Acknowledged(self.client_id, partition, offset, value))
