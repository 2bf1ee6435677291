"""Nodes that are one real broker, between which a test moves leaders, coordinator and controller.

Logs and groups are the broker's, so that all nodes share them. What the network says is where they are: metadata name
the nodes of the test, and a request at another node is refused as by a broker that does not lead or coordinate.
Node 0 is the host `broker`, node 1 `b1` and so on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kavka.broker.partitions.replica import Replica
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.apis import ApiKey
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponseNodeEndpoint,
    FetchResponsePartition,
    FetchResponseTopic,
)
from kavka.wire.messages.find_coordinator import FindCoordinatorResponse
from kavka.wire.messages.list_offsets import ListOffsetsRequest
from kavka.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from kavka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    ProduceResponseNodeEndpoint,
)
from kavka.wire.refusals import refusal
from support.faulty_broker import HOST, FaultyBroker

PORT = 9092
_COORDINATORS = {
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_GROUPS,
}


def host_of(node: int) -> str:
    """Return the host of a node."""
    return f"b{node}" if node else HOST


def node_of(host: str) -> int:
    """Return the node of a host."""
    return 0 if host == HOST else int(host.removeprefix("b"))


class MovingLeaders(FaultyBroker):
    """Node 0 leads, coordinates and is the controller, until the test says otherwise."""

    def __init__(self, path: Path, nodes: int) -> None:
        super().__init__(path)
        self.nodes = list(range(nodes))
        self.leaders: dict[tuple[str, int], tuple[int, int]] = {}
        """(node, leader epoch) of partitions whose leader has moved."""
        self.epoch_ends: dict[tuple[str, int], tuple[int, int]] = {}
        """(epoch, end offset) that leaders respond to OffsetForLeaderEpoch."""
        self.near: dict[tuple[str, int], int] = {}
        """The node from which a consumer with a rack should read."""
        self.has_hints = False
        """True if refusals name the leader (KIP-951)."""
        self.coordinator = 0
        self.controller = 0
        self.hidden.add(ApiKey.DESCRIBE_CLUSTER)
        self.replacements[ApiKey.METADATA] = self._metadata
        self.replacements[ApiKey.FIND_COORDINATOR] = self._coordinators
        self.replacements[ApiKey.FETCH] = self._late_fetch
        self._names: dict[bytes, str] = {}
        self._has_moved = False
        self.hosts |= {host_of(node): self.hosts[HOST] for node in self.nodes}

    def nodes_asked(self, key: ApiKey) -> list[int]:
        """Return the nodes that requests of an API went to, in their order."""
        return [node_of(host) for api, host in self.asked if api is key]

    def truncate(self, topic: str, offset: int) -> None:
        """Remove the end of a log, as a leader that has less of it would have it."""

        async def cut() -> None:
            replica = self.broker.replica_manager.find(TopicPartition(topic, 0))
            assert isinstance(replica, Replica)
            async with replica.lock:
                await replica.log.truncate_to(offset)
                assert replica.log.log_end_offset == offset, "batches are removed whole"
                replica.partition.log_end_offset = replica.partition.high_watermark = offset

        self._process.call(cut())

    def respond(self, host: str, key: ApiKey, request: Any) -> Any:
        node = node_of(host)
        if key in _COORDINATORS and node != self.coordinator:
            return refusal(key, request, ErrorCode.NOT_COORDINATOR)
        if key is ApiKey.CREATE_TOPICS and node != self.controller:
            return refusal(key, request, ErrorCode.NOT_CONTROLLER)
        match request:
            case ProduceRequest():
                return self._produce(node, request)
            case FetchRequest():
                return self._fetch(node, request)
            case ListOffsetsRequest():
                return self._list_offsets(node, request)
            case OffsetForLeaderEpochRequest():
                return self._epoch_ends(node, request)
        return super().respond(host, key, request)

    def _leader(self, topic: str, partition: int) -> tuple[int, int]:
        return self.leaders.get((topic, partition), (0, 0))

    def _refusal(self, node: int, topic: str, partition: int, epoch: int = -1) -> ErrorCode:
        leader, current = self._leader(topic, partition)
        if leader != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if 0 <= epoch < current:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > current else ErrorCode.NONE

    def _metadata(self, response: MetadataResponse) -> MetadataResponse:
        response.brokers = [
            MetadataResponseBroker(node_id=node, host=host_of(node), port=PORT)
            for node in self.nodes
            if host_of(node) not in self.down
        ]
        response.controller_id = self.controller
        for topic in response.topics:
            self._names[bytes(topic.topic_id)] = topic.name or ""
            for row in topic.partitions:
                row.leader_id, row.leader_epoch = self._leader(
                    topic.name or "", row.partition_index
                )
                row.replica_nodes = row.isr_nodes = self.nodes
        return response

    def _coordinators(self, response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        for found in response.coordinators:
            if found.error_code == ErrorCode.NONE:
                found.node_id, found.host = self.coordinator, host_of(self.coordinator)
        return response

    def _produce(self, node: int, request: ProduceRequest) -> ProduceResponse | None:
        topic_partitions = [
            (topic.name, row.index) for topic in request.topic_data for row in topic.partition_data
        ]
        code = next(
            (c for key in topic_partitions if (c := self._refusal(node, *key))), ErrorCode.NONE
        )
        if code is ErrorCode.NONE:
            return None
        response: ProduceResponse = refusal(ApiKey.PRODUCE, request, code)
        for topic in response.responses if self.has_hints else ():
            for row in topic.partition_responses:
                leader, epoch = self._leader(topic.name, row.index)
                row.current_leader.leader_id, row.current_leader.leader_epoch = leader, epoch
                response.node_endpoints.append(
                    ProduceResponseNodeEndpoint(node_id=leader, host=host_of(leader), port=PORT)
                )
        return response

    def _fetch(self, node: int, request: FetchRequest) -> FetchResponse | None:
        """Refuse what another node leads. A session would go on with partitions that it does not name."""
        self._has_moved = self._has_moved or bool(self.leaders or self.near)
        if not self._has_moved:
            return None
        if request.session_epoch > 0:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        request.session_id, request.session_epoch = 0, -1
        response = FetchResponse()
        for topic in request.topics:
            name = topic.topic or self._names[bytes(topic.topic_id)]
            rows = []
            for row in topic.partitions:
                near = self.near.get((name, row.partition)) if request.rack_id else None
                code = ErrorCode.NONE
                if near != node:
                    code = self._refusal(node, name, row.partition, row.current_leader_epoch)
                if code is not ErrorCode.NONE or near not in (None, node):
                    rows.append(self._unread(response, name, row.partition, code, near))
                row.current_leader_epoch = -1
            if rows:
                response.responses.append(
                    FetchResponseTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=rows)
                )
        return response if response.responses else None

    def _late_fetch(self, response: FetchResponse) -> FetchResponse:
        """Refuse a fetch that waited through the move, whose node leads no more. Later ones have no session."""
        if self.leaders and response.session_id:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return response

    def _unread(
        self, response: FetchResponse, name: str, partition: int, code: ErrorCode, near: int | None
    ) -> FetchResponsePartition:
        row = FetchResponsePartition(
            partition_index=partition, error_code=code, high_watermark=-1, records=b""
        )
        if code is ErrorCode.NONE and near is not None:
            row.high_watermark, row.preferred_read_replica = 0, near
        if self.has_hints and code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leader, epoch = self._leader(name, partition)
            row.current_leader.leader_id, row.current_leader.leader_epoch = leader, epoch
            response.node_endpoints.append(
                FetchResponseNodeEndpoint(node_id=leader, host=host_of(leader), port=PORT)
            )
        return row

    def _list_offsets(self, node: int, request: ListOffsetsRequest) -> Any:
        for topic in request.topics:
            for row in topic.partitions:
                code = self._refusal(
                    node, topic.name, row.partition_index, row.current_leader_epoch
                )
                if code is not ErrorCode.NONE:
                    return refusal(ApiKey.LIST_OFFSETS, request, code)
                row.current_leader_epoch = -1
        return None

    def _epoch_ends(
        self, node: int, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                topic_partition = topic.topic, row.partition
                code = self._refusal(node, *topic_partition, row.current_leader_epoch)
                epoch, end = self.epoch_ends.get(topic_partition, (row.leader_epoch, 1 << 40))
                rows.append(
                    OffsetForLeaderEpochResponsePartition(
                        partition=row.partition,
                        error_code=code,
                        leader_epoch=-1 if code else epoch,
                        end_offset=-1 if code else end,
                    )
                )
            topics.append(OffsetForLeaderEpochResponseTopic(topic=topic.topic, partitions=rows))
        return OffsetForLeaderEpochResponse(topics=topics)
