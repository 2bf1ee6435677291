"""Messages of control requests in any version's form: what they say of partitions and brokers, and the responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kavka.broker.configs.broker_config import Endpoint
from kavka.broker.metadata.cache import LiveBroker
from kavka.broker.requests.pace import Pace
from kavka.core.partition import PartitionState
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from kavka.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrRequestPartition,
    LeaderAndIsrResponse,
    LeaderAndIsrResponsePartition,
    LeaderAndIsrResponseTopic,
)
from kavka.wire.messages.stop_replica import StopReplicaRequest
from kavka.wire.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataRequestBroker,
    UpdateMetadataRequestPartition,
)

_SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FIRST_LEADER_AND_ISR_BY_ID = 5

TopicStates = dict[str, tuple[TopicId, list[UpdateMetadataRequestPartition]]]
"""Topic ids and partition states of an UpdateMetadata, by topic."""


class RequestedPartitionState(NamedTuple):
    """A partition of a LeaderAndIsr."""

    topic_partition: TopicPartition
    state: PartitionState
    is_new: bool


def requested_states(request: LeaderAndIsrRequest) -> Iterator[RequestedPartitionState]:
    """Iterate over the partitions of a LeaderAndIsr, in any version's form."""
    for ungrouped in request.ungrouped_partition_states:
        yield _partition_state(ungrouped.topic_name, NO_TOPIC_ID, ungrouped)
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield _partition_state(topic.topic_name, TopicId(bytes(topic.topic_id)), state)


def _partition_state(
    topic: str, topic_id: TopicId, state: LeaderAndIsrRequestPartition
) -> RequestedPartitionState:
    return RequestedPartitionState(
        TopicPartition(topic, state.partition_index),
        PartitionState(
            BrokerId(state.leader),
            LeaderEpoch(state.leader_epoch),
            state.partition_epoch,
            tuple(map(BrokerId, state.isr)),
            tuple(map(BrokerId, state.replicas)),
            tuple(map(BrokerId, state.adding_replicas)),
            tuple(map(BrokerId, state.removing_replicas)),
            state.controller_epoch,
            topic_id,
        ),
        state.is_new,
    )


async def leader_and_isr_response(
    partition_states: list[RequestedPartitionState],
    outcomes: list[ErrorCode],
    version: int,
    pace: Pace,
) -> LeaderAndIsrResponse:
    """Return the response with the outcome of each partition, in the form of a version."""
    by_topic: dict[TopicId, list[LeaderAndIsrResponsePartition]] = {}
    for partition_state, code in zip(partition_states, outcomes, strict=True):
        row = LeaderAndIsrResponsePartition(
            topic_name=partition_state.topic_partition.topic
            if version < _FIRST_LEADER_AND_ISR_BY_ID
            else "",
            partition_index=partition_state.topic_partition.partition,
            error_code=code,
        )
        by_topic.setdefault(partition_state.state.topic_id, []).append(row)
        if pace.is_over():
            await pace.rest()
    if version < _FIRST_LEADER_AND_ISR_BY_ID:
        flat = [row for rows in by_topic.values() for row in rows]
        return LeaderAndIsrResponse(error_code=ErrorCode.NONE, partition_errors=flat)
    return LeaderAndIsrResponse(
        error_code=ErrorCode.NONE,
        topics=[
            LeaderAndIsrResponseTopic(topic_id=topic_id, partition_errors=rows)
            for topic_id, rows in by_topic.items()
        ],
    )


def stopped_replicas(
    request: StopReplicaRequest, version: int
) -> Iterator[tuple[TopicPartition, int, bool]]:
    """Iterate over the replicas of a StopReplica, in any version's form: partition, leader epoch, whether to delete."""
    if version >= 3:
        for topic in request.topic_states:
            for state in topic.partition_states:
                topic_partition = TopicPartition(topic.topic_name, state.partition_index)
                yield topic_partition, state.leader_epoch, state.delete_partition
        return
    for ungrouped in request.ungrouped_partitions:
        topic_partition = TopicPartition(ungrouped.topic_name, ungrouped.partition_index)
        yield topic_partition, -1, request.delete_partitions
    for grouped in request.topics:
        for index in grouped.partition_indexes:
            yield TopicPartition(grouped.name, index), -1, request.delete_partitions


async def topic_states(request: UpdateMetadataRequest, pace: Pace) -> TopicStates:
    """Return the partition states of an UpdateMetadata by topic, in any version's form."""
    changes: TopicStates = {}
    for state in request.ungrouped_partition_states:
        changes.setdefault(state.topic_name, (NO_TOPIC_ID, []))[1].append(state)
        if pace.is_over():
            await pace.rest()
    for topic in request.topic_states:
        topic_id = TopicId(bytes(topic.topic_id))
        changes.setdefault(topic.topic_name, (topic_id, []))[1].extend(topic.partition_states)
        if pace.is_over():
            await pace.rest()
    return changes


def live_broker(live: UpdateMetadataRequestBroker, version: int, epoch: int) -> LiveBroker:
    """Return a broker of an UpdateMetadata, in any version's form. `epoch` is -1 unless it is this broker's own."""
    endpoints = tuple(
        Endpoint(
            endpoint.listener if version >= 3 else _protocol(endpoint.security_protocol),
            endpoint.host,
            endpoint.port,
            _protocol(endpoint.security_protocol),
        )
        for endpoint in live.endpoints
    )
    if version == 0:
        endpoints = (Endpoint("PLAINTEXT", live.v0_host, live.v0_port, "PLAINTEXT"),)
    return LiveBroker(BrokerId(live.id), endpoints, live.rack, epoch)


def _protocol(number: int) -> str:
    known = 0 <= number < len(_SECURITY_PROTOCOLS)
    return _SECURITY_PROTOCOLS[number] if known else f"UNKNOWN_{number}"
