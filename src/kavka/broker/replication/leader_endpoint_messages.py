"""Messages of the leader endpoint: end offsets of epochs, start and end offsets of the leader's log.

Of both kinds there is the request for many partitions, and what its response says to the machines that asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kavka.core.follower import FetchEpochEndOffset, FetchOffset, FollowedPartition, Step
from kavka.core.topic_partitions import group_by_topic
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from kavka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
)

Deliver = Callable[[FollowedPartition, int], Step | None]
"""Gives the response to the machine that asked, at a time in milliseconds."""


def epochs_request(
    broker_id: BrokerId, requested: Mapping[TopicPartition, FetchEpochEndOffset]
) -> OffsetForLeaderEpochRequest:
    """Ask where epochs end."""
    topics = group_by_topic(
        (
            topic_partition,
            OffsetForLeaderEpochRequestPartition(
                partition=topic_partition.partition,
                current_leader_epoch=request.leader_epoch,
                leader_epoch=request.epoch,
            ),
        )
        for topic_partition, request in requested.items()
    )
    return OffsetForLeaderEpochRequest(
        replica_id=broker_id,
        topics=[OffsetForLeaderEpochRequestTopic(topic=t, partitions=p) for t, p in topics.items()],
    )


def epoch_ends(
    requested: Mapping[TopicPartition, FetchEpochEndOffset], response: OffsetForLeaderEpochResponse
) -> Iterator[tuple[TopicPartition, Deliver]]:
    """Yield what the leader said of the partitions that were asked for."""
    for topic in response.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.topic, partition.partition)
            request = requested.get(topic_partition)
            if request is not None:
                error = ErrorCode.of(partition.error_code)
                yield (
                    topic_partition,
                    _deliver_epoch_end(
                        request, error, partition.leader_epoch, partition.end_offset
                    ),
                )


def _deliver_epoch_end(
    request: FetchEpochEndOffset, error: ErrorCode, epoch: int, end_offset: int
) -> Deliver:
    return lambda machine, now_ms: machine.epoch_end_offset_fetched(
        request, error, epoch, end_offset, now_ms
    )


def offsets_request(
    broker_id: BrokerId, requested: Mapping[TopicPartition, FetchOffset]
) -> ListOffsetsRequest:
    """Ask where logs begin or end."""
    topics = group_by_topic(
        (
            topic_partition,
            ListOffsetsRequestPartition(
                partition_index=topic_partition.partition,
                current_leader_epoch=request.leader_epoch,
                timestamp=request.timestamp,
            ),
        )
        for topic_partition, request in requested.items()
    )
    return ListOffsetsRequest(
        replica_id=broker_id,
        isolation_level=0,
        topics=[ListOffsetsRequestTopic(name=t, partitions=p) for t, p in topics.items()],
    )


def offsets(
    requested: Mapping[TopicPartition, FetchOffset], response: ListOffsetsResponse
) -> Iterator[tuple[TopicPartition, Deliver]]:
    """Yield what the leader said of the partitions that were asked for."""
    for topic in response.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            request = requested.get(topic_partition)
            if request is not None:
                # Version 0 has a list.
                offset = (
                    partition.old_style_offsets[0]
                    if partition.old_style_offsets
                    else partition.offset
                )
                yield (
                    topic_partition,
                    _deliver_offset(request, ErrorCode.of(partition.error_code), offset),
                )


def _deliver_offset(request: FetchOffset, error: ErrorCode, offset: int) -> Deliver:
    return lambda machine, now_ms: machine.offset_fetched(request, error, offset, now_ms)
