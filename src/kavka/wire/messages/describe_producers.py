"""DescribeProducers (key 61)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string, struct


@struct
class DescribeProducersRequestTopic:
    """Part of DescribeProducersRequest."""

    name: string = field()
    partition_indexes: list[i32] = field()


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    """The request of DescribeProducers."""

    topics: list[DescribeProducersRequestTopic] = field()


@struct
class DescribeProducersResponseActiveProducer:
    """Part of DescribeProducersResponse."""

    producer_id: i64 = field()
    producer_epoch: i32 = field()
    last_sequence: i32 = field(default=-1)
    last_timestamp: i64 = field(default=-1)
    coordinator_epoch: i32 = field()
    current_txn_start_offset: i64 = field(default=-1)


@struct
class DescribeProducersResponsePartition:
    """Part of DescribeProducersResponse."""

    partition_index: i32 = field()
    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)
    active_producers: list[DescribeProducersResponseActiveProducer] = field()


@struct
class DescribeProducersResponseTopic:
    """Part of DescribeProducersResponse."""

    name: string = field()
    partitions: list[DescribeProducersResponsePartition] = field()


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    """The response of DescribeProducers."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    topics: list[DescribeProducersResponseTopic] = field()
