"""The producers that partitions remember (KIP-664)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string, struct


@struct
class DescribeProducersRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partition_indexes: list[i32] = field()


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    """Asks leaders for the producers of partitions."""

    topics: list[DescribeProducersRequestTopic] = field()


@struct
class DescribeProducersResponseActiveProducer:
    """The state of one producer in a partition."""

    producer_id: i64 = field()
    producer_epoch: i32 = field()
    last_sequence: i32 = field(default=-1)
    """-1 for none."""
    last_timestamp: i64 = field(default=-1)
    """Of its last batch, milliseconds since 1970; -1 for none."""
    coordinator_epoch: i32 = field()
    """Of the coordinator that wrote its last marker; -1 for none."""
    current_txn_start_offset: i64 = field(default=-1)
    """The first offset of its open transaction; -1 when none is open."""


@struct
class DescribeProducersResponsePartition:
    """The producers of one partition."""

    partition_index: i32 = field()
    error_code: i16 = field()
    """NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION,
    TOPIC_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field(nullable="0+", default=None)
    active_producers: list[DescribeProducersResponseActiveProducer] = field()


@struct
class DescribeProducersResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[DescribeProducersResponsePartition] = field()


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    """The producers."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    topics: list[DescribeProducersResponseTopic] = field()
