"""ElectLeaders (key 43)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, message, string, struct


@struct
class ElectLeadersRequestTopic:
    """Part of ElectLeadersRequest."""

    topic: string = field()
    partitions: list[i32] = field()


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """The request of ElectLeaders."""

    election_type: i8 = field("1+")
    topic_partitions: list[ElectLeadersRequestTopic] | None = field(nullable="0+")
    timeout_ms: i32 = field(default=60000)


@struct
class ElectLeadersResponsePartition:
    """Part of ElectLeadersResponse."""

    partition_id: i32 = field()
    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)


@struct
class ElectLeadersResponseTopic:
    """Part of ElectLeadersResponse."""

    topic: string = field()
    partition_result: list[ElectLeadersResponsePartition] = field()


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """The response of ElectLeaders."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field("1+")
    replica_election_results: list[ElectLeadersResponseTopic] = field()
