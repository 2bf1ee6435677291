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
    """The replicas to move to one directory."""

    path: string = field()
    """Absolute."""
    topics: list[AlterReplicaLogDirsRequestTopic] = field()


@message(api_key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """The target directory of each replica of the broker, or the directory to create a new one in."""

    dirs: list[AlterReplicaLogDirsRequestDir] = field()


@struct
class AlterReplicaLogDirsResponsePartition:
    """Result for one replica: the move has started, or an error."""

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
    """Result for each move."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    results: list[AlterReplicaLogDirsResponseTopic] = field()
