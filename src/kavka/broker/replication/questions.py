"""What a follower asks when it cannot go on with records: where epochs end, where the leader's log begins and ends.

Of both kinds there is the request for many partitions, and what its answer says to the machines that asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kavka.core.follower import AskEpochEnd, AskOffset, FollowedPartition, Step
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

Tell = Callable[[FollowedPartition, int], Step | None]
"""Gives the answer to the machine that asked, at a time in milliseconds."""


def epochs_request(
    broker_id: BrokerId, asked: Mapping[TopicPartition, AskEpochEnd]
) -> OffsetForLeaderEpochRequest:
    """Ask where epochs end."""
    topics: dict[str, OffsetForLeaderEpochRequestTopic] = {}
    for where, question in asked.items():
        topic = topics.get(where.topic)
        if topic is None:
            topic = topics[where.topic] = OffsetForLeaderEpochRequestTopic(topic=where.topic)
        topic.partitions.append(
            OffsetForLeaderEpochRequestPartition(
                partition=where.partition,
                current_leader_epoch=question.leader_epoch,
                leader_epoch=question.epoch,
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=broker_id, topics=list(topics.values()))


def epoch_ends(
    asked: Mapping[TopicPartition, AskEpochEnd], response: OffsetForLeaderEpochResponse
) -> Iterator[tuple[TopicPartition, Tell]]:
    """Yield what the leader said of the partitions that were asked for."""
    for topic in response.topics:
        for told in topic.partitions:
            where = TopicPartition(topic.topic, told.partition)
            question = asked.get(where)
            if question is not None:
                error = ErrorCode.of(told.error_code)
                yield where, _epoch_end(question, error, told.leader_epoch, told.end_offset)


def _epoch_end(question: AskEpochEnd, error: ErrorCode, epoch: int, end_offset: int) -> Tell:
    return lambda machine, now_ms: machine.answer_epoch_end(
        question, error, epoch, end_offset, now_ms
    )


def offsets_request(
    broker_id: BrokerId, asked: Mapping[TopicPartition, AskOffset]
) -> ListOffsetsRequest:
    """Ask where logs begin or end."""
    topics: dict[str, ListOffsetsRequestTopic] = {}
    for where, question in asked.items():
        topic = topics.get(where.topic)
        if topic is None:
            topic = topics[where.topic] = ListOffsetsRequestTopic(name=where.topic)
        topic.partitions.append(
            ListOffsetsRequestPartition(
                partition_index=where.partition,
                current_leader_epoch=question.leader_epoch,
                timestamp=question.timestamp,
            )
        )
    return ListOffsetsRequest(replica_id=broker_id, isolation_level=0, topics=list(topics.values()))


def offsets(
    asked: Mapping[TopicPartition, AskOffset], response: ListOffsetsResponse
) -> Iterator[tuple[TopicPartition, Tell]]:
    """Yield what the leader said of the partitions that were asked for."""
    for topic in response.topics:
        for told in topic.partitions:
            where = TopicPartition(topic.name, told.partition_index)
            question = asked.get(where)
            if question is not None:
                # Version 0 has a list.
                offset = told.old_style_offsets[0] if told.old_style_offsets else told.offset
                yield where, _offset(question, ErrorCode.of(told.error_code), offset)


def _offset(question: AskOffset, error: ErrorCode, offset: int) -> Tell:
    return lambda machine, now_ms: machine.answer_offset(question, error, offset, now_ms)
