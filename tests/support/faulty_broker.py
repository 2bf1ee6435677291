"""A broker for tests of clients: the real one, on a thread of its own, behind a network that injects faults.

It advertises the host `broker`, which only that network knows: clients are given it as `network=broker`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.testing.cut_network import Links
from kavka.testing.local_process import LocalProcess
from kavka.wire.apis import ApiKey
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.messages.describe_groups import DescribeGroupsRequest
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
)
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from kavka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from kavka.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kavka.wire.records.batch import decode_records
from kavka.wire.records.control import ControlType, control_type_of
from kavka.wire.records.header import walk_complete
from support.faults import FaultInjectingNetwork
from support.waiting import wait_until

HOST = "broker"
_SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.enable": "false",
}


class FaultyBroker(FaultInjectingNetwork):
    """Broker 0. Its methods are called from the test's thread."""

    def __init__(self, path: Path, **settings: str) -> None:
        super().__init__()
        self._path = path
        links = Links()
        self._process = LocalProcess(links, 0)
        chosen = {
            "broker.id": "0",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "advertised.listeners": f"PLAINTEXT://{HOST}:9092",
            "log.dirs": str(path),
            **_SETTINGS,
            **{name.replace("__", "."): value for name, value in settings.items()},
        }

        environment = OsEnvironment()
        environment.network = self._process.network  # type: ignore[assignment]

        async def start() -> Broker:
            broker = Broker(chosen, environment)
            await broker.start()
            return broker

        self.broker = self._process.call(start())
        (self.hosts[HOST],) = links.listeners

    def close(self) -> None:
        """Stop the broker."""
        self._process.call(self.broker.stop())
        self._process.end()

    @property
    def is_down(self) -> bool:
        """Return whether it refuses connections."""
        return HOST in self.down

    @is_down.setter
    def is_down(self, is_down: bool) -> None:
        (self.down.add if is_down else self.down.discard)(HOST)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic; settings have `__` for dots."""
        chosen = [
            CreateTopicsRequestConfig(name=name.replace("__", "."), value=value)
            for name, value in configs.items()
        ]
        new = CreateTopicsRequestTopic(
            name=topic, num_partitions=partitions, replication_factor=1, configs=chosen
        )
        response = self.send(CreateTopicsRequest(topics=[new], timeout_ms=30_000))
        assert response.topics[0].error_code == ErrorCode.NONE, response

    def send(self, request: Any, version: int | None = None) -> Any:
        """Send a request past all faults, and return the response."""

        async def exchange() -> Any:
            peer = await Peer.connect(TcpNetwork(), "127.0.0.1", self.hosts[HOST])
            try:
                return await peer.send(request, version)
            finally:
                peer.close()
                await peer.wait_closed()

        return self._process.call(exchange())

    def alter(self, topic: str, **configs: str) -> None:
        """Set settings of a topic, with `__` for dots."""
        rows = [
            IncrementalAlterConfigsRequestConfig(name=name.replace("__", "."), value=value)
            for name, value in configs.items()
        ]
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=2, resource_name=topic, configs=rows
        )
        response = self.send(IncrementalAlterConfigsRequest(resources=[resource]))
        assert response.responses[0].error_code == ErrorCode.NONE, response

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        state = DeleteTopicsRequestTopic(name=topic)
        response = self.send(
            DeleteTopicsRequest(topics=[state], topic_names=[topic], timeout_ms=30_000)
        )
        assert response.responses[0].error_code == ErrorCode.NONE, response

    def refuse_topics(self, codes: Mapping[str, ErrorCode]) -> None:
        """Have metadata name an error for topics that do not exist."""

        def replaced(response: MetadataResponse) -> MetadataResponse:
            for topic in response.topics:
                topic.error_code = codes.get(topic.name or "", ErrorCode.of(topic.error_code))
            return response

        self.replacements[ApiKey.METADATA] = replaced

    def batches(self, topic: str, partition: int = 0) -> bytes:
        """Return the log up to the high watermark."""
        found = b""
        while True:
            row = FetchRequestPartition(
                partition=partition,
                fetch_offset=_end_of(found),
                partition_max_bytes=1 << 27,
            )
            topics = [FetchRequestTopic(topic=topic, partitions=[row])]
            response = self.send(FetchRequest(max_bytes=1 << 27, topics=topics), 11)
            more = bytes(response.responses[0].partitions[0].records or b"")
            if not more:
                return found
            found += more

    def records(
        self, topic: str, partition: int = 0
    ) -> list[tuple[int, bytes | None, bytes | None]]:
        """Return (offset, key, value) of everything in a log but markers."""
        data = self.batches(topic, partition)
        return [
            (record.offset, record.key, record.value)
            for header in walk_complete(data)
            if not header.is_control
            for record in decode_records(data, header)
        ]

    def ends(self, topic: str = "t", partition: int = 0) -> list[bool]:
        """Return the end markers in a log: True for a commit, False for an abort."""
        data = self.batches(topic, partition)
        return [
            control_type_of(data, header) is ControlType.COMMIT
            for header in walk_complete(data)
            if header.is_control
        ]

    def until(self, condition: Callable[[], object], timeout_s: float = 30) -> None:
        """Wait until something holds that no response reports: what acks=0 writes. Raise TimeoutError."""
        wait_until(condition, timeout_s, error=TimeoutError)

    def pretend_nodes(self, *nodes: int) -> None:
        """Have metadata name brokers that are all this one: node 1 is the host `b1`, and so on."""
        rows = [
            MetadataResponseBroker(node_id=n, host=f"b{n}" if n else HOST, port=9092) for n in nodes
        ]
        self.hosts |= {row.host: self.hosts[HOST] for row in rows}

        def replaced(response: MetadataResponse) -> MetadataResponse:
            response.brokers = rows
            return response

        self.replacements[ApiKey.METADATA] = replaced

    def replace_records(self, replace: Callable[[bytes], bytes]) -> None:
        """Have fetched records replaced from now on: `replace` takes the batches of a partition as they are."""

        def replaced(response: FetchResponse) -> FetchResponse:
            for topic in response.responses:
                for row in topic.partitions:
                    records = row.records or b""
                    assert isinstance(records, (bytes, bytearray, memoryview))
                    row.records = replace(bytes(records))
            return response

        self.replacements[ApiKey.FETCH] = replaced

    def remove_members(self) -> None:
        """Remove all members of the group `g`, as an administrator does."""
        (group,) = self.send(DescribeGroupsRequest(groups=["g"])).groups
        members = [LeaveGroupRequestMember(member_id=one.member_id) for one in group.members]
        response = self.send(LeaveGroupRequest(group_id="g", members=members))
        assert response.error_code == ErrorCode.NONE, response

    def commit(self, topic_partition: TopicPartition, offset: int) -> None:
        """Commit an offset of the group `g`, which has no members."""
        row = OffsetCommitRequestPartition(
            partition_index=topic_partition.partition, committed_offset=offset
        )
        topic = OffsetCommitRequestTopic(name=topic_partition.topic, partitions=[row])

        def is_done() -> bool:
            self.send(FindCoordinatorRequest(key="g"), 3)
            response = self.send(OffsetCommitRequest(group_id="g", topics=[topic]), 8)
            return bool(response.topics[0].partitions[0].error_code == ErrorCode.NONE)

        self.until(is_done)

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The offsets that the group `g` has committed."""
        asked = OffsetFetchRequestGroup(group_id="g", topics=None)
        (found,) = self.send(OffsetFetchRequest(groups=[asked])).groups
        return {
            TopicPartition(topic.name, row.partition_index): row.committed_offset
            for topic in found.topics
            for row in topic.partitions
        }


def _end_of(batches: bytes) -> int:
    """Return the offset after the last record of whole batches."""
    return max((header.last_offset + 1 for header in walk_complete(batches)), default=0)
