"""Move partitions to other brokers, or stop moving them (KIP-455)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@struct
class AlterPartitionReassignmentsRequestPartition:
    """A partition to move."""

    partition_index: i32 = field()
    replicas: list[i32] | None = field(nullable="0+", default=None)
    """The brokers that it shall have; None stops a move that is in progress."""


@struct
class AlterPartitionReassignmentsRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[AlterPartitionReassignmentsRequestPartition] = field()


@message(api_key=45, versions="0", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """Partitions to move. The controller takes it."""

    timeout_ms: i32 = field(default=60000)
    """Milliseconds to wait until the reassignments have started."""
    topics: list[AlterPartitionReassignmentsRequestTopic] = field()


@struct
class AlterPartitionReassignmentsResponsePartition:
    """Result for one partition: the reassignment has started, or an error."""

    partition_index: i32 = field()
    error_code: i16 = field()
    """INVALID_REPLICA_ASSIGNMENT, UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS
    (nothing to stop).
    """
    error_message: string | None = field(nullable="0+", default=None)


@struct
class AlterPartitionReassignmentsResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[AlterPartitionReassignmentsResponsePartition] = field()


@message(api_key=45, versions="0", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """Result for each reassignment."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """NOT_CONTROLLER, CLUSTER_AUTHORIZATION_FAILED, REQUEST_TIMED_OUT."""
    error_message: string | None = field(nullable="0+", default=None)
    responses: list[AlterPartitionReassignmentsResponseTopic] = field()
