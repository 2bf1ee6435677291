"""DescribeTopicPartitions (key 75)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, message, string, struct, uuid


@struct
class DescribeTopicPartitionsRequestTopic:
    """Part of DescribeTopicPartitionsRequest."""

    name: string = field()


@struct
class DescribeTopicPartitionsRequestCursor:
    """Part of DescribeTopicPartitionsRequest."""

    topic_name: string = field()
    partition_index: i32 = field()


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """The request of DescribeTopicPartitions."""

    topics: list[DescribeTopicPartitionsRequestTopic] = field()
    response_partition_limit: i32 = field(default=2000)
    cursor: DescribeTopicPartitionsRequestCursor | None = field(nullable="0+", default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    """Part of DescribeTopicPartitionsResponse."""

    error_code: i16 = field()
    partition_index: i32 = field()
    leader_id: i32 = field()
    leader_epoch: i32 = field(default=-1)
    replica_nodes: list[i32] = field()
    isr_nodes: list[i32] = field()
    eligible_leader_replicas: list[i32] | None = field(nullable="0+", default=None)
    last_known_elr: list[i32] | None = field(nullable="0+", default=None)
    offline_replicas: list[i32] = field()


@struct
class DescribeTopicPartitionsResponseTopic:
    """Part of DescribeTopicPartitionsResponse."""

    error_code: i16 = field()
    name: string | None = field(nullable="0+", default=None)
    topic_id: uuid = field()
    is_internal: boolean = field()
    partitions: list[DescribeTopicPartitionsResponsePartition] = field()
    topic_authorized_operations: i32 = field(default=-2147483648)


@struct
class DescribeTopicPartitionsResponseCursor:
    """Part of DescribeTopicPartitionsResponse."""

    topic_name: string = field()
    partition_index: i32 = field()


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """The response of DescribeTopicPartitions."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    topics: list[DescribeTopicPartitionsResponseTopic] = field()
    next_cursor: DescribeTopicPartitionsResponseCursor | None = field(nullable="0+", default=None)
