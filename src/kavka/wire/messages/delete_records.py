"""Move the start of partitions forward (KIP-107)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string, struct


@struct
class DeleteRecordsRequestPartition:
    """The new log start offset of a partition."""

    partition_index: i32 = field()
    offset: i64 = field()
    """The new first offset; -1 is the high watermark."""


@struct
class DeleteRecordsRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[DeleteRecordsRequestPartition] = field()


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """Asks leaders to forget what is before an offset."""

    topics: list[DeleteRecordsRequestTopic] = field()
    timeout_ms: i32 = field()
    """Milliseconds to wait until all replicas have followed."""


@struct
class DeleteRecordsResponsePartition:
    """The low watermark of one partition."""

    partition_index: i32 = field()
    low_watermark: i64 = field()
    """The lowest first offset of all live replicas; -1 on error."""
    error_code: i16 = field()
    """OFFSET_OUT_OF_RANGE (above the high watermark), NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_OR_PARTITION, REQUEST_TIMED_OUT. POLICY_VIOLATION: the topic is compacted
    only. INVALID_TOPIC_EXCEPTION: an internal topic. TOPIC_AUTHORIZATION_FAILED.
    """


@struct
class DeleteRecordsResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[DeleteRecordsResponsePartition] = field()


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """The low watermarks of the partitions."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    topics: list[DeleteRecordsResponseTopic] = field()
