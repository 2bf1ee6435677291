"""Brokers in this process over one registry in memory, whose controller is one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from kavka.broker.environment import OsEnvironment
from kavka.broker.metadata.cache import PartitionMetadata
from kavka.client import Consumer
from kavka.core.partition import Partition
from kavka.core.znodes import ZnodeTree
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition
from kavka.registry.znode_server import ZnodeServer
from kavka.simulation.faulty_session import FaultySession
from kavka.values import replace
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestTopic,
)
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.produce import ProduceResponsePartition
from kavka.wire.records.batch import decode_records
from kavka.wire.records.header import walk_complete
from kavka.wire.stored import znodes
from support.in_process import InProcessCluster, dotted, run_story
from support.produce import batch, produce
from support.waiting import eventually, until


class Cluster(InProcessCluster):
    """Brokers by number over one registry in memory: one of them is the controller."""

    def __init__(self, path: Path, settings: Mapping[str, str]) -> None:
        super().__init__(
            path,
            {
                "offsets.topic.num.partitions": "2",
                "controlled.shutdown.retry.backoff.ms": "100",
                **settings,
            },
        )
        self.session_ms = 6_000
        """The session timeout of brokers that start from now on."""
        environment = OsEnvironment()
        self.znode_server = ZnodeServer(environment.clock, environment.random, None, ZnodeTree())
        self.sessions: dict[int, FaultySession] = {}

    # -- brokers

    def open_session(self, number: int) -> FaultySession:
        session = self.sessions[number] = FaultySession(self.znode_server, self.session_ms)
        return session

    async def kill(self, number: int) -> None:
        """Let a broker's sockets and tasks end at once; its session stays, as of a killed process."""
        broker = self.brokers.pop(number)
        session = self.sessions.pop(number)
        session.crash()
        self.disconnect(number)
        await broker.abandon()

    async def close(self) -> None:
        self.disconnect_all()
        for number in list(self.brokers):
            self.brokers[number].config.values["controlled.shutdown.enable"] = False
        for number in sorted(self.brokers):
            await self.brokers.pop(number).stop()
        await self.znode_server.close()

    async def deafen(self, number: int) -> None:
        """Refuse connections to a broker, and break existing ones, while it stays alive."""
        broker = self.brokers[number]
        broker.listeners.close()
        for connection in list(broker.dispatcher.connections):
            connection.abort()

    async def undeafen(self, number: int) -> None:
        """Let it listen again, where it did."""
        broker = self.brokers[number]
        (endpoint,) = broker.context.endpoints.listeners
        here = replace(endpoint, port=self.ports[number])
        broker.context.set_endpoints(replace(broker.context.endpoints, listeners=(here,)))
        await broker.listeners.bind()

    # -- asking

    @property
    def controller(self) -> int:
        """The broker that rules."""
        data = self.znode_server.tree.data(znodes.CONTROLLER)
        ruler = -1 if data is None else znodes.decode_controller(data)
        broker = self.brokers.get(ruler)
        return ruler if broker is not None and broker.controller.is_active else -1

    async def until(self, condition: Callable[[], bool], what: str = "") -> None:
        """Give way until something is so."""
        try:
            await until(condition)
        except TimeoutError:
            raise AssertionError(f"it never became so: {what or condition}") from None

    def partition_metadata(
        self, number: int, topic_partition: TopicPartition
    ) -> PartitionMetadata | None:
        """Return what a broker shows of a partition."""
        return self.brokers[number].metadata.partition(topic_partition)

    def leader(self, topic_partition: TopicPartition) -> int:
        """Return the leader that all brokers show, or -1 while they differ."""
        leaders = {
            -1
            if (partition_metadata := self.partition_metadata(number, topic_partition)) is None
            else int(partition_metadata.leader)
            for number in self.brokers
        }
        leader = leaders.pop() if len(leaders) == 1 else -1
        if leader not in self.brokers:
            return -1
        found = self.brokers[leader].replica_manager.find(topic_partition)
        return -1 if isinstance(found, ErrorCode) or not found.partition.is_leader else leader

    def in_sync(self, topic_partition: TopicPartition) -> set[int]:
        """Return the in-sync set as its leader has it."""
        leader = self.leader(topic_partition)
        return (
            set()
            if leader < 0
            else set(map(int, self.partition(leader, topic_partition).in_sync_replicas))
        )

    def partition(self, number: int, topic_partition: TopicPartition) -> Partition:
        replica = self.brokers[number].replica_manager.find(topic_partition)
        assert not isinstance(replica, ErrorCode), replica
        return replica.partition

    def hosts(self, number: int, topic_partition: TopicPartition) -> bool:
        """Return whether a broker has the log of a partition."""
        return self.brokers[number].replica_manager.store.get(topic_partition) is not None

    async def create(self, name: str, *replicas: list[int]) -> None:
        """Create a topic with these replicas, and wait until it is led and whole."""
        topic = CreateTopicsRequestTopic(name=name, num_partitions=-1, replication_factor=-1)
        for index, brokers in enumerate(replicas):
            topic.assignments.append(_assignment(index, brokers))
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        response = (await self.send(self.controller, request)).topics[0]
        assert response.error_code == ErrorCode.NONE, response
        for index, brokers in enumerate(replicas):
            topic_partition = TopicPartition(name, index)
            await self.until(
                lambda w=topic_partition, b=brokers: self.in_sync(w) == set(b),  # type: ignore[misc]
                f"{topic_partition} is in sync",
            )

    async def produce(
        self, topic_partition: TopicPartition, *values: bytes, acks: int = -1
    ) -> ProduceResponsePartition:
        """Produce to the leader, once."""
        await self.until(lambda: self.leader(topic_partition) >= 0, f"{topic_partition} is led")
        peer = await self.peer(self.leader(topic_partition))
        return await produce(peer, topic_partition, batch(*values), acks=acks)

    async def must_produce(self, topic_partition: TopicPartition, *values: bytes) -> None:
        """Produce with acks=all until it is acknowledged, as a client that retries."""

        async def code() -> ErrorCode:
            try:
                response = await self.produce(topic_partition, *values)
            except (ConnectionError, TimeoutError):
                return ErrorCode.NETWORK_EXCEPTION
            found = ErrorCode.of(response.error_code)
            assert found is ErrorCode.NONE or found.retriable, response
            return found

        await eventually(code, lambda found: found is ErrorCode.NONE)

    async def committed(self, topic: str) -> list[bytes]:
        """Return what partition 0 has that is committed, up to the end of its log: nothing holds readers back."""
        settings = {
            "bootstrap.servers": f"127.0.0.1:{self.ports[1]}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        topic_partition = TopicPartition(topic, 0)
        found: list[bytes] = []
        async with Consumer(settings) as consumer, asyncio.timeout(60):
            consumer.assign([topic_partition])
            end = self.partition(self.leader(topic_partition), topic_partition).log_end_offset
            while await consumer.position(topic_partition) < end:
                for batch in await consumer.poll(timeout_ms=200):
                    found += [bytes(record.value or b"") for record in batch.records()]
        return found

    async def read(self, topic_partition: TopicPartition) -> list[bytes]:
        """Return the values that consumers see."""
        await self.until(lambda: self.leader(topic_partition) >= 0)
        asked = FetchRequestPartition(
            partition=topic_partition.partition, partition_max_bytes=1 << 20
        )
        topic = FetchRequestTopic(topic=topic_partition.topic, partitions=[asked])
        request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[topic])
        response = await self.send(self.leader(topic_partition), request, 11)
        data = bytes(response.responses[0].partitions[0].records or b"")
        return [
            bytes(record.value or b"")
            for header in walk_complete(data)
            for record in decode_records(data, header)
        ]


def _assignment(index: int, brokers: list[int]) -> Any:
    return CreateTopicsRequestAssignment(partition_index=index, broker_ids=brokers)


Story = Callable[[Cluster], Awaitable[None]]
Run = Callable[..., None]


def run_in(path: Path) -> Run:
    """Return what runs a story on three brokers; keyword arguments are settings with `__` for dots."""

    def run_on(story: Story, brokers: int = 3, **settings: str) -> None:
        replicas = str(min(3, max(1, brokers)))
        texts = {
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            **dotted(settings),
        }
        numbers = range(1, brokers + 1)

        async def start(cluster: Cluster) -> None:
            await cluster.start(*numbers)
            alive = set(map(BrokerId, numbers))
            await cluster.until(
                lambda: all(set(b.metadata.brokers) == alive for b in cluster.brokers.values()),
                "all know all",
            )

        run_story(Cluster(path, texts), story, start)

    return run_on
