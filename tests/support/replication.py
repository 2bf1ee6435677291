"""Brokers in this process that replicate `t-0`, and a controller that is the test itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kavka.broker.partitions.replica import Replica
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.peer import Peer
from kavka.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
)
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrRequestPartition,
    LeaderAndIsrRequestTopic,
)
from kavka.wire.messages.produce import ProduceResponsePartition
from kavka.wire.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataRequestBroker,
    UpdateMetadataRequestEndpoint,
    UpdateMetadataRequestPartition,
    UpdateMetadataRequestTopic,
)
from support.in_process import InProcessCluster
from support.produce import batch, partition_response, produce_request
from support.waiting import until

TOPIC_ID = b"0123456789abcdef"
INTERNAL_ID = b"fedcba9876543210"
WHERE = TopicPartition("t", 0)


class ReplicaCluster(InProcessCluster):
    """Brokers 1, 2 ...; the state of `t-0` as the test's controller has it."""

    def __init__(self, path: Path, settings: Mapping[str, str]) -> None:
        super().__init__(path, {"broker.rack": "rack-%d", **settings})
        self.leader = -1
        self.epoch = -1
        self.partition_epoch = 0
        self.isr: list[int] = []
        self.replicas: list[int] = []
        self.refuses: ErrorCode | None = None
        self.node_endpoints: list[Any] = []

    # -- brokers

    async def start(self, *numbers: int) -> None:
        """Start brokers, on new ports: the next control request names them."""
        for number in numbers:
            self.ports.pop(number, None)
        await super().start(*numbers)
        for number in numbers:
            replication_manager = self.brokers[number].replication_manager
            replication_manager.controller.local = self.alter_partition

    def replica(self, number: int, topic_partition: TopicPartition = WHERE) -> Replica:
        replica = self.brokers[number].replica_manager.find(topic_partition)
        assert isinstance(replica, Replica), replica
        return replica

    # -- the controller

    async def leader_and_isr(
        self,
        leader: int,
        isr: Iterable[int] | None = None,
        replicas: Iterable[int] | None = None,
        to: Iterable[int] | None = None,
    ) -> None:
        """Elect; send LeaderAndIsr to the live replicas, or to those in `to`."""
        self.leader = leader
        self.epoch += 1
        self.partition_epoch += 1
        self.replicas = list(replicas) if replicas is not None else self.replicas
        self.isr = list(isr) if isr is not None else self.isr
        for number in self.brokers if to is None else to:
            await self.send_state(number)

    async def send_state(self, number: int) -> None:
        live = list(self.brokers)
        await self.brokers[number].control_requests.update_metadata(self.update(live))
        if number in self.replicas:
            state = LeaderAndIsrRequestPartition(
                partition_index=0,
                controller_epoch=1000,
                leader=self.leader,
                leader_epoch=self.epoch,
                isr=self.isr,
                partition_epoch=self.partition_epoch,
                replicas=self.replicas,
                is_new=True,
            )
            topic = LeaderAndIsrRequestTopic(
                topic_name="t", topic_id=TOPIC_ID, partition_states=[state]
            )
            request = LeaderAndIsrRequest(
                controller_id=1, controller_epoch=1000, topic_states=[topic]
            )
            await self.brokers[number].control_requests.leader_and_isr(request)

    def update(self, live: list[int]) -> UpdateMetadataRequest:
        state = UpdateMetadataRequestPartition(
            partition_index=0,
            controller_epoch=1000,
            leader=self.leader,
            leader_epoch=self.epoch,
            isr=self.isr,
            zk_version=self.partition_epoch,
            replicas=self.replicas,
        )
        return UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=1000,
            topic_states=[
                UpdateMetadataRequestTopic(
                    topic_name="t", topic_id=TOPIC_ID, partition_states=[state]
                )
            ],
            live_brokers=[
                UpdateMetadataRequestBroker(
                    id=number,
                    endpoints=[
                        UpdateMetadataRequestEndpoint(
                            port=self.ports[number],
                            host="127.0.0.1",
                            listener="PLAINTEXT",
                            security_protocol=0,
                        )
                    ],
                    rack=f"rack-{number}",
                )
                for number in live
            ],
        )

    async def coordinate(
        self,
        topic_partition: TopicPartition,
        *,
        in_sync: list[int],
        epoch: int,
        leader: int = 1,
        to: Iterable[int] = (1,),
    ) -> None:
        """Send the brokers in `to` the leader of a partition of an internal topic, with replicas on 1 and 2."""
        facts: dict[str, Any] = {
            "partition_index": topic_partition.partition,
            "controller_epoch": 1000,
            "leader": leader,
            "leader_epoch": epoch,
            "isr": in_sync,
            "replicas": [1, 2],
        }
        state = LeaderAndIsrRequestPartition(**facts, partition_epoch=epoch, is_new=epoch == 0)
        topic = LeaderAndIsrRequestTopic(
            topic_name=topic_partition.topic, topic_id=INTERNAL_ID, partition_states=[state]
        )
        update = self.update(list(self.brokers))
        row = UpdateMetadataRequestPartition(**facts, zk_version=epoch)
        update.topic_states.append(
            UpdateMetadataRequestTopic(
                topic_name=topic_partition.topic, topic_id=INTERNAL_ID, partition_states=[row]
            )
        )
        request = LeaderAndIsrRequest(controller_id=1, controller_epoch=1000, topic_states=[topic])
        for number in to:
            await self.brokers[number].control_requests.update_metadata(update)
            await self.brokers[number].control_requests.leader_and_isr(request)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Carry out what a leader proposes, unless its epochs are old or the test refuses."""
        (topic,) = request.topics
        (asked,) = topic.partitions
        response = AlterPartitionResponsePartition(partition_index=0)
        is_current = (asked.leader_epoch, asked.partition_epoch, request.broker_id) == (
            self.epoch,
            self.partition_epoch,
            self.leader,
        )
        if self.refuses is not None:
            response.error_code = self.refuses
        elif not is_current:
            response.error_code = ErrorCode.INVALID_UPDATE_VERSION
        else:
            self.isr = [member.broker_id for member in asked.new_isr_with_epochs]
            self.partition_epoch += 1
        response.leader_id, response.leader_epoch = self.leader, self.epoch
        response.isr, response.partition_epoch = list(self.isr), self.partition_epoch
        return AlterPartitionResponse(
            topics=[AlterPartitionResponseTopic(topic_id=topic.topic_id, partitions=[response])]
        )

    # -- clients

    async def peer(self, number: int) -> Peer:
        """Return a new connection: a produce that waits for replicas holds back what follows on its own."""
        return await self.connect(number)

    async def produce(
        self,
        number: int,
        *values: bytes,
        acks: int = -1,
        timeout_ms: int = 30_000,
        version: int = 9,
        partition: int = 0,
    ) -> ProduceResponsePartition:
        request = produce_request(
            "t", [(partition, batch(*values))], acks=acks, timeout_ms=timeout_ms
        )
        response = await self.send(number, request, version)
        self.node_endpoints = response.node_endpoints
        return partition_response(response)

    async def fetch(self, number: int, offset: int, rack: str = "", **asked: Any) -> Any:
        """Fetch as a consumer."""
        part = FetchRequestPartition(fetch_offset=offset, partition_max_bytes=1 << 20, **asked)
        topic = FetchRequestTopic(topic_id=TOPIC_ID, partitions=[part])
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[topic], rack_id=rack
        )
        response = await self.send(number, request)
        self.node_endpoints = response.node_endpoints
        return response.responses[0].partitions[0]

    async def until_equal(self, *numbers: int) -> None:
        """Wait until these replicas have the same log and high watermark."""

        def is_equal() -> bool:
            found = {
                (replica.log.log_end_offset, replica.partition.high_watermark)
                for replica in map(self.replica, numbers)
            }
            return len(found) == 1

        await until(is_equal)

    def bytes_of(self, number: int) -> bytes:
        """Return what is in the segments."""
        directory = self.path / str(number) / "t-0"
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


Story = Callable[[ReplicaCluster], Awaitable[None]]
Play = Callable[..., None]
