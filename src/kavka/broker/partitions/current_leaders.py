"""Current leaders in responses, so that a client can continue without metadata (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kavka.broker.partitions.replica import Replica
from kavka.errors import ErrorCode
from kavka.ids import TopicId, TopicPartition
from kavka.wire.messages.fetch import (
    FetchResponse,
    FetchResponseCurrentLeader,
    FetchResponseNodeEndpoint,
)
from kavka.wire.messages.produce import (
    ProduceResponse,
    ProduceResponseCurrentLeader,
    ProduceResponseNodeEndpoint,
)

if TYPE_CHECKING:
    from kavka.broker.metadata.cache import MetadataCache
    from kavka.broker.partitions.replica_manager import ReplicaManager

_FIRST_PRODUCE: Final = 10
_FIRST_FETCH: Final = 16
_NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_NOT_LEADER_ERRORS: Final = (_NOT_LEADER, ErrorCode.FENCED_LEADER_EPOCH)


class CurrentLeaders:
    """The leaders that this broker knows, for clients that ask it by mistake."""

    def __init__(self, metadata: MetadataCache, replica_manager: ReplicaManager) -> None:
        """`replica_manager` learns first of a new leader; `metadata` knows partitions that are not hosted here."""
        self._metadata = metadata
        self._replica_manager = replica_manager

    def add_to_produce(
        self, listener: str, version: int, response: ProduceResponse
    ) -> ProduceResponse:
        """Name the leaders of partitions that this broker does not lead; return the same response."""
        if version < _FIRST_PRODUCE:
            return response
        leaders: dict[int, None] = {}
        for topic in response.responses:
            for row in topic.partition_responses:
                if row.error_code == _NOT_LEADER:
                    leader, epoch = self._leader_of(TopicPartition(topic.name, row.index))
                    row.current_leader = ProduceResponseCurrentLeader(
                        leader_id=leader, leader_epoch=epoch
                    )
                    leaders[leader] = None
        if leaders:
            response.node_endpoints = self._endpoints(
                listener, leaders, ProduceResponseNodeEndpoint
            )
        return response

    def add_to_fetch(self, listener: str, version: int, response: FetchResponse) -> FetchResponse:
        """Add current leaders to a Fetch response; an epoch that is too old counts as well."""
        if version < _FIRST_FETCH:
            return response
        leaders: dict[int, None] = {}
        for topic in response.responses:
            for row in topic.partitions:
                if row.error_code in _NOT_LEADER_ERRORS:
                    name = topic.topic or self._metadata.name_of(TopicId(bytes(topic.topic_id)))
                    if name:
                        topic_partition = TopicPartition(name, row.partition_index)
                        leader, epoch = self._leader_of(topic_partition)
                        row.current_leader = FetchResponseCurrentLeader(
                            leader_id=leader, leader_epoch=epoch
                        )
                        leaders[leader] = None
        if leaders:
            response.node_endpoints = self._endpoints(listener, leaders, FetchResponseNodeEndpoint)
        return response

    def _leader_of(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """Return leader and epoch as the replica knows them, which learns of both first; else as metadata says."""
        replica = self._replica_manager.find(topic_partition)
        if isinstance(replica, Replica):
            return replica.partition.leader, replica.partition.leader_epoch
        partition_metadata = self._metadata.partition(topic_partition)
        return (
            (-1, -1)
            if partition_metadata is None
            else (partition_metadata.leader, partition_metadata.leader_epoch)
        )

    def _endpoints(self, listener: str, leaders: dict[int, None], kind: Any) -> list[Any]:
        return [
            kind(node_id=live.broker_id, host=endpoint.host, port=endpoint.port, rack=live.rack)
            for live, endpoint in self._metadata.brokers_on_listener(listener)
            if live.broker_id in leaders
        ]
