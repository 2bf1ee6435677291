"""One broker in this process, on a free port, over a directory of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.broker.metadata.cache import LiveBroker
from kavka.broker.partitions.replica import Replica
from kavka.core.partition import PartitionState
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, LeaderEpoch, TopicPartition
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.net.peer_security import PLAINTEXT, PeerSecurity
from kavka.wire.codec import decode, encode
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.leader_and_isr import LeaderAndIsrRequest
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.produce import ProduceResponsePartition
from kavka.wire.messages.stop_replica import StopReplicaRequest
from kavka.wire.records.batch import Record, decode_records
from kavka.wire.records.header import walk_complete
from kavka.wire.schema import schema_of
from support.produce import batch as make_batch
from support.produce import produce

SILENT = BrokerId(9)


class Served:
    """A running broker and one connection to it."""

    def __init__(self, broker: Broker, peer: Peer, port: int) -> None:
        self.broker = broker
        self.peer = peer
        self.port = port
        self.peers: list[Peer] = []

    async def send(self, request: Any, version: int | None = None) -> Any:
        return await self.peer.send(request, version)

    async def control_request(self, request: Any, version: int | None = None) -> Any:
        """Have a request of the controller handled, in the form of a version."""
        version = schema_of(type(request)).versions[-1] if version is None else version
        parts = encode(request, version)
        data = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
        decoded = decode(type(request), version, memoryview(data))
        control_requests = self.broker.control_requests
        match decoded:
            case LeaderAndIsrRequest():
                return await control_requests.leader_and_isr(decoded, version)
            case StopReplicaRequest():
                return await control_requests.stop_replica(decoded, version)
        return await control_requests.update_metadata(decoded, version)

    async def another(self) -> Served:
        """Connect once more; the broker closes the connection when it stops."""
        peer = await Peer.connect(TcpNetwork(), "127.0.0.1", self.port, client_id="other")
        self.peers.append(peer)
        return Served(self.broker, peer, self.port)

    async def until_a_fetch_waits(self) -> None:
        """Give way until the broker, which runs in this loop, has parked a fetch."""
        for _ in range(100_000):
            if len(self.broker.fetch_purgatory):
                return
            await asyncio.sleep(0)
        raise AssertionError("no fetch waits")

    def replica(self, topic_partition: TopicPartition) -> Replica:
        """Return a replica that this broker leads."""
        found = self.broker.replica_manager.find(topic_partition)
        assert isinstance(found, Replica), found
        return found

    async def add_silent_follower(self, replica: Replica) -> None:
        """Let the broker `SILENT`, which never fetches, be in sync with a partition that this broker leads."""
        broker, partition = self.broker, replica.partition
        broker.metadata.brokers[SILENT] = LiveBroker(SILENT, (), None, 1)
        both = (broker.broker_id, SILENT)
        state = PartitionState(
            broker.broker_id,
            LeaderEpoch(partition.leader_epoch + 1),
            partition.partition_epoch + 1,
            both,
            both,
            topic_id=partition.topic_id,
            controller_epoch=partition.controller_epoch,
        )
        code = await broker.replica_manager.make_leader_or_follower(
            replica.topic_partition, state, is_new=False
        )
        assert code is ErrorCode.NONE, code

    @staticmethod
    def new_topic(name: str, partitions: int = 1, **configs: str) -> CreateTopicsRequestTopic:
        """Return what is asked for to create a topic; settings have `__` for dots."""
        return CreateTopicsRequestTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreateTopicsRequestConfig(name=key.replace("__", "."), value=value)
                for key, value in configs.items()
            ],
        )

    async def create(self, name: str, partitions: int = 1, /, **configs: str) -> Any:
        """Create a topic, and return what was answered about it."""
        topic = self.new_topic(name, partitions, **configs)
        return (await self.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))).topics[0]

    async def topic(self, name: str) -> None:
        """Create a topic by asking for its metadata."""
        await self.send(MetadataRequest(topics=[MetadataRequestTopic(name=name)]))

    async def produce(
        self, topic: str, *values: bytes, partition: int = 0, acks: int = 1, **batch: Any
    ) -> ProduceResponsePartition:
        records = make_batch(*values, **batch)
        return await self.produce_bytes(topic, records, partition, acks)

    async def produce_bytes(
        self, topic: str, records: bytes | bytearray, partition: int = 0, acks: int = 1
    ) -> ProduceResponsePartition:
        return await produce(self, TopicPartition(topic, partition), records, acks=acks)

    async def fetch(
        self,
        topic: str,
        offset: int = 0,
        *,
        partition: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        version: int = 11,
    ) -> Any:
        asked = FetchRequestPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes
        )
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            topics=[FetchRequestTopic(topic=topic, partitions=[asked])],
        )
        response = await self.send(request, version)
        return response.responses[0].partitions[0]

    async def read(self, topic: str, offset: int = 0, partition: int = 0) -> list[Record]:
        found = await self.fetch(topic, offset, partition=partition)
        assert found.error_code == 0
        records = bytes(found.records)
        return [r for h in walk_complete(records) for r in decode_records(records, h)]


Story = Callable[[Served], Awaitable[None]]
Run = Callable[..., None]


async def serve(
    directory: Path, story: Story, security: PeerSecurity = PLAINTEXT, /, **settings: str
) -> None:
    """Run `story` against a broker over `directory`, then stop the broker cleanly; `security` is the connection's."""
    texts = {name.replace("__", "."): value for name, value in settings.items()}
    texts = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(directory),
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "3",
        **texts,
    }
    broker = Broker(texts, OsEnvironment())
    endpoints = await broker.start()
    try:
        peer = await Peer.connect(
            TcpNetwork(), "127.0.0.1", endpoints[0].port, client_id="test", security=security
        )
        served = Served(broker, peer, endpoints[0].port)
        try:
            await story(served)
        finally:
            for each in (peer, *served.peers):
                each.close()
    finally:
        await broker.stop()
