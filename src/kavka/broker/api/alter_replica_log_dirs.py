"""AlterReplicaLogDirs: replicas of this broker move to another of its log directories (KIP-113)."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.broker.replica import Replica
from kavka.core.controller.topics import bad_name
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin each move; it goes on when this is answered."""
    topics: dict[str, AlterReplicaLogDirsResponseTopic] = {}
    for asked in request.dirs:
        for topic in asked.topics:
            answer = topics.setdefault(
                topic.name, AlterReplicaLogDirsResponseTopic(topic_name=topic.name)
            )
            for index in topic.partitions:
                code = await _move(broker, TopicPartition(topic.name, index), asked.path)
                answer.partitions.append(
                    AlterReplicaLogDirsResponsePartition(partition_index=index, error_code=code)
                )
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


async def _move(broker: Broker, where: TopicPartition, path: str) -> ErrorCode:
    if bad_name(where.topic) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    store = broker.replicas.store
    path = path.rstrip("/") or "/"
    directory = next((each for each in store.directories if each.path == path), None)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if directory.failure is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    replica = broker.replicas.find(where)
    if isinstance(replica, Replica):
        return await broker.replicas.moves.move(replica, path)
    if replica is ErrorCode.KAFKA_STORAGE_ERROR:
        return replica
    # The broker has no such replica yet: it will be made there.
    store.preferred[where] = directory
    is_known = replica is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.REPLICA_NOT_AVAILABLE if is_known else replica
