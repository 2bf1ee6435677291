"""Topics and their partitions, page by page (KIP-966)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, message, string, struct, uuid


@struct
class DescribeTopicPartitionsRequestTopic:
    """A topic to describe."""

    name: string = field()


@struct
class DescribeTopicPartitionsRequestCursor:
    """The first topic and partition of a page."""

    topic_name: string = field()
    partition_index: i32 = field()


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """Asks for topics in the order of their names."""

    topics: list[DescribeTopicPartitionsRequestTopic] = field()
    """Empty asks for all."""
    response_partition_limit: i32 = field(default=2000)
    """The most partitions of a page; the broker has a limit of its own."""
    cursor: DescribeTopicPartitionsRequestCursor | None = field(nullable="0+", default=None)
    """First partition of the page; None for the first page."""


@struct
class DescribeTopicPartitionsResponsePartition:
    """A partition and its replicas."""

    error_code: i16 = field()
    """LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND."""
    partition_index: i32 = field()
    leader_id: i32 = field()
    """-1 while there is none."""
    leader_epoch: i32 = field(default=-1)
    replica_nodes: list[i32] = field()
    isr_nodes: list[i32] = field()
    eligible_leader_replicas: list[i32] | None = field(nullable="0+", default=None)
    """Out of the in-sync set, yet complete; None where the cluster does not keep them."""
    last_known_elr: list[i32] | None = field(nullable="0+", default=None)
    """The last known ones; None where the cluster does not keep them."""
    offline_replicas: list[i32] = field()


@struct
class DescribeTopicPartitionsResponseTopic:
    """A topic, or why there is none."""

    error_code: i16 = field()
    """UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED."""
    name: string | None = field(nullable="0+", default=None)
    topic_id: uuid = field()
    is_internal: boolean = field()
    partitions: list[DescribeTopicPartitionsResponsePartition] = field()
    topic_authorized_operations: i32 = field(default=-2147483648)
    """A set of bits by AclOperation."""


@struct
class DescribeTopicPartitionsResponseCursor:
    """The first topic and partition of the next page."""

    topic_name: string = field()
    partition_index: i32 = field()


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """A page of topics."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    topics: list[DescribeTopicPartitionsResponseTopic] = field()
    next_cursor: DescribeTopicPartitionsResponseCursor | None = field(nullable="0+", default=None)
    """First partition of the next page; None when this is the last one."""
