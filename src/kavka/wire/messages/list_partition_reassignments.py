"""List ongoing reassignments (KIP-455)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@struct
class ListPartitionReassignmentsRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partition_indexes: list[i32] = field()


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """Asks the controller for moves in progress."""

    timeout_ms: i32 = field(default=60000)
    topics: list[ListPartitionReassignmentsRequestTopic] | None = field(nullable="0+", default=None)
    """None asks for all."""


@struct
class ListPartitionReassignmentsResponsePartition:
    """A partition that moves."""

    partition_index: i32 = field()
    replicas: list[i32] = field()
    """All, with those being added and those being removed."""
    adding_replicas: list[i32] = field()
    removing_replicas: list[i32] = field()


@struct
class ListPartitionReassignmentsResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[ListPartitionReassignmentsResponsePartition] = field()


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """Moves in progress; partitions that do not move are left out."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """NOT_CONTROLLER, CLUSTER_AUTHORIZATION_FAILED."""
    error_message: string | None = field(nullable="0+", default=None)
    topics: list[ListPartitionReassignmentsResponseTopic] = field()
