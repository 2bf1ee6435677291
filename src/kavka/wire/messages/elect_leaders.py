"""Elect leaders of partitions now (KIP-183, KIP-460)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, message, string, struct


@struct
class ElectLeadersRequestTopic:
    """Partitions of one topic."""

    topic: string = field()
    partitions: list[i32] = field()


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """Partitions that shall elect. The controller takes it."""

    election_type: i8 = field("1+")
    """0: the preferred replica. 1: unclean, any live replica if no in-sync one is. Version 0 is
    always 0.
    """
    topic_partitions: list[ElectLeadersRequestTopic] | None = field(nullable="0+")
    """None asks for all partitions."""
    timeout_ms: i32 = field(default=60000)
    """Milliseconds to wait for the elections."""


@struct
class ElectLeadersResponsePartition:
    """Result for one election."""

    partition_id: i32 = field()
    error_code: i16 = field()
    """ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION, NOT_CONTROLLER, REQUEST_TIMED_OUT.
    """
    error_message: string | None = field(nullable="0+", default=None)


@struct
class ElectLeadersResponseTopic:
    """Partitions of one topic."""

    topic: string = field()
    partition_result: list[ElectLeadersResponsePartition] = field()


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """Result for each election."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field("1+")
    """NOT_CONTROLLER, CLUSTER_AUTHORIZATION_FAILED."""
    replica_election_results: list[ElectLeadersResponseTopic] = field()
