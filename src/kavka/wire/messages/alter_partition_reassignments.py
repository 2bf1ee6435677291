"""AlterPartitionReassignments (key 45)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@struct
class AlterPartitionReassignmentsRequestPartition:
    """Part of AlterPartitionReassignmentsRequest."""

    partition_index: i32 = field()
    replicas: list[i32] | None = field(nullable="0+", default=None)


@struct
class AlterPartitionReassignmentsRequestTopic:
    """Part of AlterPartitionReassignmentsRequest."""

    name: string = field()
    partitions: list[AlterPartitionReassignmentsRequestPartition] = field()


@message(api_key=45, versions="0", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """The request of AlterPartitionReassignments."""

    timeout_ms: i32 = field(default=60000)
    topics: list[AlterPartitionReassignmentsRequestTopic] = field()


@struct
class AlterPartitionReassignmentsResponsePartition:
    """Part of AlterPartitionReassignmentsResponse."""

    partition_index: i32 = field()
    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)


@struct
class AlterPartitionReassignmentsResponseTopic:
    """Part of AlterPartitionReassignmentsResponse."""

    name: string = field()
    partitions: list[AlterPartitionReassignmentsResponsePartition] = field()


@message(api_key=45, versions="0", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """The response of AlterPartitionReassignments."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)
    responses: list[AlterPartitionReassignmentsResponseTopic] = field()
