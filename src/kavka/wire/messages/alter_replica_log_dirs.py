"""Move replicas of a broker between its log directories (KIP-113)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@struct
class AlterReplicaLogDirsRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[i32] = field()


@struct
class AlterReplicaLogDirsRequestDir:
    """What shall lie in one directory."""

    path: string = field()
    """Absolute."""
    topics: list[AlterReplicaLogDirsRequestTopic] = field()


@message(api_key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """Where replicas of the broker asked shall lie; for a partition that it will get, where to create it."""

    dirs: list[AlterReplicaLogDirsRequestDir] = field()


@struct
class AlterReplicaLogDirsResponsePartition:
    """Whether one move has begun."""

    partition_index: i32 = field()
    error_code: i16 = field()
    """LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, UNKNOWN_TOPIC_OR_PARTITION, REPLICA_NOT_AVAILABLE
    (the broker will create the partition there), INVALID_TOPIC_EXCEPTION,
    CLUSTER_AUTHORIZATION_FAILED.
    """


@struct
class AlterReplicaLogDirsResponseTopic:
    """Partitions of one topic."""

    topic_name: string = field()
    partitions: list[AlterReplicaLogDirsResponsePartition] = field()


@message(api_key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    """What became of each move."""

    throttle_time_ms: i32 = field()
    """How long the client is held back because of a quota, milliseconds."""
    results: list[AlterReplicaLogDirsResponseTopic] = field()
