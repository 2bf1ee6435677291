"""OffsetForLeaderEpoch: the end of a leader epoch, to detect truncation (KIP-101, KIP-320)."""

from __future__ import annotations

from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.session import CLUSTER_NAME, AclOperation, AclResourceType
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)


async def handle(
    replica_manager: ReplicaManager, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answer each partition that this broker leads."""
    pace = context.pace
    topics = []
    for topic in request.topics:
        if pace.is_over():
            await pace.rest()
        partitions = []
        is_allowed = _is_allowed(context, topic.topic)
        for asked in topic.partitions:
            if is_allowed:
                partitions.append(_end_of_epoch(replica_manager, topic.topic, asked))
            else:
                partitions.append(_refused(asked))
            if pace.is_over():
                await pace.rest()
        topics.append(OffsetForLeaderEpochResponseTopic(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def _is_allowed(context: RequestContext, topic: str) -> bool:
    """Return whether the client is a broker, or may describe the topic."""
    acts, cluster = AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER
    return context.allows(acts, cluster, CLUSTER_NAME, is_asked=False) or context.allows(
        AclOperation.DESCRIBE, AclResourceType.TOPIC, topic
    )


def _refused(
    asked: OffsetForLeaderEpochRequestPartition,
) -> OffsetForLeaderEpochResponsePartition:
    return OffsetForLeaderEpochResponsePartition(
        partition=asked.partition,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        leader_epoch=-1,
        end_offset=-1,
    )


def _end_of_epoch(
    replica_manager: ReplicaManager, topic: str, asked: OffsetForLeaderEpochRequestPartition
) -> OffsetForLeaderEpochResponsePartition:
    result = OffsetForLeaderEpochResponsePartition(
        partition=asked.partition, leader_epoch=-1, end_offset=-1
    )
    replica = replica_manager.find(TopicPartition(topic, asked.partition))
    if isinstance(replica, ErrorCode):
        result.error_code = replica
        return result
    error = replica.partition.check_leader(asked.current_leader_epoch)
    if error is not ErrorCode.NONE:
        result.error_code = error
        return result
    log = replica.log
    result.leader_epoch, result.end_offset = log.epochs.end_offset_for(
        asked.leader_epoch, log.log_end_offset
    )
    return result
