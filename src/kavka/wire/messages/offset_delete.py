"""OffsetDelete (key 47)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@struct
class OffsetDeleteRequestPartition:
    """Part of OffsetDeleteRequest."""

    partition_index: i32 = field()


@struct
class OffsetDeleteRequestTopic:
    """Part of OffsetDeleteRequest."""

    name: string = field()
    partitions: list[OffsetDeleteRequestPartition] = field()


@message(api_key=47, versions="0")
class OffsetDeleteRequest:
    """The request of OffsetDelete."""

    group_id: string = field()
    topics: list[OffsetDeleteRequestTopic] = field()


@struct
class OffsetDeleteResponsePartition:
    """Part of OffsetDeleteResponse."""

    partition_index: i32 = field()
    error_code: i16 = field()


@struct
class OffsetDeleteResponseTopic:
    """Part of OffsetDeleteResponse."""

    name: string = field()
    partitions: list[OffsetDeleteResponsePartition] = field()


@message(api_key=47, versions="0")
class OffsetDeleteResponse:
    """The response of OffsetDelete."""

    error_code: i16 = field()
    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    topics: list[OffsetDeleteResponseTopic] = field()
