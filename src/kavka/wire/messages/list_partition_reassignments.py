"""ListPartitionReassignments (key 46)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@struct
class ListPartitionReassignmentsRequestTopic:
    """Part of ListPartitionReassignmentsRequest."""

    name: string = field()
    partition_indexes: list[i32] = field()


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """The request of ListPartitionReassignments."""

    timeout_ms: i32 = field(default=60000)
    topics: list[ListPartitionReassignmentsRequestTopic] | None = field(nullable="0+", default=None)


@struct
class ListPartitionReassignmentsResponsePartition:
    """Part of ListPartitionReassignmentsResponse."""

    partition_index: i32 = field()
    replicas: list[i32] = field()
    adding_replicas: list[i32] = field()
    removing_replicas: list[i32] = field()


@struct
class ListPartitionReassignmentsResponseTopic:
    """Part of ListPartitionReassignmentsResponse."""

    name: string = field()
    partitions: list[ListPartitionReassignmentsResponsePartition] = field()


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """The response of ListPartitionReassignments."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)
    topics: list[ListPartitionReassignmentsResponseTopic] = field()
