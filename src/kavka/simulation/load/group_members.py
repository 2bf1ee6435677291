"""Members of a consumer group: read, process, commit what was processed; join again whenever the group says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kavka.client.consumer import Consumer, RebalanceListener
from kavka.errors import KafkaError
from kavka.ids import TopicPartition
from kavka.simulation.checker import Checker
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.events import Assigned, Committed, CommittedSeen, Processed
from kavka.simulation.load.client import ClientNode
from kavka.simulation.scenario import Scenario
from kavka.simulation.world import World

GROUP = "workers"


class MemberNode(ClientNode):
    """A member; after each batch it commits the offset behind it, once the work is done."""

    def __init__(self, world: World, name: str, scenario: Scenario, checker: Checker) -> None:
        """Begin with nothing processed."""
        super().__init__(world, name, scenario, checker)
        self.goal: dict[TopicPartition, int] = {}
        """End offsets of the partitions, once the audit knows them: the group must reach them."""
        self._work_s = self.source.choice([0.0, 0.01, 0.3])

    async def work(self, environment: SimEnvironment) -> None:
        """Run as a member until it is stopped and all partitions are committed to their end."""
        consumer = environment.with_client(
            Consumer(
                {
                    **self.scenario.consumer,
                    "bootstrap.servers": self.scenario.servers,
                    "group.id": GROUP,
                    "client.id": self.client_id,
                },
                network=environment.network,
                clock=environment.clock,
                random=environment.random,
            )
        )
        await self._start(consumer)
        consumer.subscribe(list(self.scenario.topics), listener=_Listener(self, consumer))
        while not (self.quits.is_set() and await self._is_finished(consumer)):
            try:
                await self._poll_once(consumer)
            except (KafkaError, OSError) as error:
                self.world.trace.add(self.name, f"goes on after {error}")
                await asyncio.sleep(0.1)
        await consumer.close()

    async def _start(self, consumer: Consumer) -> None:
        while True:
            try:
                await consumer.start()
                return
            except OSError:
                await asyncio.sleep(0.3)

    async def _poll_once(self, consumer: Consumer) -> None:
        offsets: dict[TopicPartition, int] = {}
        for batch in await consumer.poll(timeout_ms=500):
            topic_partition = TopicPartition(batch.topic, batch.partition)
            for record in batch.records():
                value = record.value or b""
                self.checker.observe(
                    Processed(GROUP, self.client_id, topic_partition, record.offset, value)
                )
                offsets[topic_partition] = record.offset + 1
        if offsets:
            if self._work_s:
                await asyncio.sleep(self.source.expovariate(1 / self._work_s))
            await self.commit(consumer, offsets)

    async def commit(self, consumer: Consumer, offsets: dict[TopicPartition, int]) -> None:
        """Commit, and report the confirmation."""
        await consumer.commit(dict(offsets))
        for topic_partition, offset in offsets.items():
            self.checker.observe(
                Committed(GROUP, self.client_id, topic_partition, offset, self.world.loop.time())
            )

    async def check_assignment(
        self, consumer: Consumer, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Fetch the group's offsets, and report the response."""
        asked_s = self.world.loop.time()
        found = await consumer.committed(partitions, timeout_ms=5000)
        offsets: dict[TopicPartition, int] = {}
        for topic_partition, committed in found.items():
            offset = None if committed is None else committed.offset
            self.checker.observe(CommittedSeen(GROUP, topic_partition, offset, asked_s))
            offsets[topic_partition] = offset or 0
        return offsets

    async def _is_finished(self, consumer: Consumer) -> bool:
        """Return whether the group has committed everything, by its offsets."""
        try:
            offsets = await self.check_assignment(consumer, list(self.goal))
        except (KafkaError, OSError):
            return False
        return all(
            offsets.get(topic_partition, 0) >= end for topic_partition, end in self.goal.items()
        )


class _Listener(RebalanceListener):
    """Looks at the group's offsets whenever partitions come."""

    def __init__(self, member: MemberNode, consumer: Consumer) -> None:
        self._member = member
        self._consumer = consumer

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        generation = self._consumer._coordinator.member.generation  # not shown to users
        if generation >= 0:
            assigned = tuple(self._consumer.assignment())
            member = self._member
            member.checker.observe(Assigned(GROUP, member.client_id, generation, assigned))
        self._member.world.trace.add(
            self._member.name, f"gets {', '.join(map(str, partitions)) or 'nothing'}"
        )
        try:
            await self._member.check_assignment(self._consumer, partitions)
        except (KafkaError, OSError) as error:
            self._member.world.trace.add(self._member.name, f"cannot look at offsets: {error}")
