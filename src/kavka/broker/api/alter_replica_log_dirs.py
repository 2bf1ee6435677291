"""AlterReplicaLogDirs: replicas of this broker move to another of its log directories (KIP-113)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.requests.context import RequestContext
from kavka.core.controller.topics import bad_name
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.replication.alter_log_dirs import AlterLogDirsManager


_MAX_PREFERRED = 10_000
"""Maximum of stored directories for partitions that do not exist yet. The oldest are dropped."""


async def handle(
    replica_manager: ReplicaManager,
    alter_log_dirs: AlterLogDirsManager,
    context: RequestContext,
    request: AlterReplicaLogDirsRequest,
) -> AlterReplicaLogDirsResponse:
    """Begin each move; it continues when this is answered. Of what is named repeatedly the last counts."""
    pace = context.pace
    paths: dict[TopicPartition, str] = {}
    for asked in request.dirs:
        if pace.is_over():
            await pace.rest()
        for named in asked.topics:
            if pace.is_over():
                await pace.rest()
            for index in named.partitions:
                paths[TopicPartition(named.name, index)] = asked.path
                if pace.is_over():
                    await pace.rest()
    topics: dict[str, AlterReplicaLogDirsResponseTopic] = {}
    for topic_partition, path in paths.items():
        topic = topics.get(topic_partition.topic)
        if topic is None:
            topic = topics[topic_partition.topic] = AlterReplicaLogDirsResponseTopic(
                topic_name=topic_partition.topic
            )
        code = await _move(replica_manager, alter_log_dirs, topic_partition, path)
        topic.partitions.append(
            AlterReplicaLogDirsResponsePartition(
                partition_index=topic_partition.partition, error_code=code
            )
        )
        if pace.is_over():
            await pace.rest()
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


async def _move(
    replica_manager: ReplicaManager,
    alter_log_dirs: AlterLogDirsManager,
    topic_partition: TopicPartition,
    path: str,
) -> ErrorCode:
    if bad_name(topic_partition.topic) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    store = replica_manager.store
    path = path.rstrip("/") or "/"
    directory = next((each for each in store.directories if each.path == path), None)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if directory.failure is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    replica = replica_manager.find(topic_partition)
    if isinstance(replica, Replica):
        return await alter_log_dirs.move(replica, path)
    if replica is ErrorCode.KAFKA_STORAGE_ERROR:
        return replica
    # The broker has no such replica yet: it will be made there.
    store.preferred.pop(topic_partition, None)
    if len(store.preferred) >= _MAX_PREFERRED:
        del store.preferred[next(iter(store.preferred))]
    store.preferred[topic_partition] = directory
    is_known = replica is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.REPLICA_NOT_AVAILABLE if is_known else replica
