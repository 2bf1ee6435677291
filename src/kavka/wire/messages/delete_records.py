"""DeleteRecords (key 21)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string, struct


@struct
class DeleteRecordsRequestPartition:
    """Part of DeleteRecordsRequest."""

    partition_index: i32 = field()
    offset: i64 = field()


@struct
class DeleteRecordsRequestTopic:
    """Part of DeleteRecordsRequest."""

    name: string = field()
    partitions: list[DeleteRecordsRequestPartition] = field()


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """The request of DeleteRecords."""

    topics: list[DeleteRecordsRequestTopic] = field()
    timeout_ms: i32 = field()


@struct
class DeleteRecordsResponsePartition:
    """Part of DeleteRecordsResponse."""

    partition_index: i32 = field()
    low_watermark: i64 = field()
    error_code: i16 = field()


@struct
class DeleteRecordsResponseTopic:
    """Part of DeleteRecordsResponse."""

    name: string = field()
    partitions: list[DeleteRecordsResponsePartition] = field()


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """The response of DeleteRecords."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    topics: list[DeleteRecordsResponseTopic] = field()
