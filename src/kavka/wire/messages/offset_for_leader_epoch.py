"""OffsetForLeaderEpoch (key 23)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string, struct


@struct
class OffsetForLeaderEpochRequestPartition:
    """Part of OffsetForLeaderEpochRequest."""

    partition: i32 = field()
    current_leader_epoch: i32 = field("2+", default=-1, ignorable=True)
    leader_epoch: i32 = field()


@struct
class OffsetForLeaderEpochRequestTopic:
    """Part of OffsetForLeaderEpochRequest."""

    topic: string = field()
    partitions: list[OffsetForLeaderEpochRequestPartition] = field()


@message(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """The request of OffsetForLeaderEpoch."""

    replica_id: i32 = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderEpochRequestTopic] = field()


@struct
class OffsetForLeaderEpochResponsePartition:
    """Part of OffsetForLeaderEpochResponse."""

    error_code: i16 = field()
    partition: i32 = field()
    leader_epoch: i32 = field("1+", default=-1, ignorable=True)
    end_offset: i64 = field(default=-1)


@struct
class OffsetForLeaderEpochResponseTopic:
    """Part of OffsetForLeaderEpochResponse."""

    topic: string = field()
    partitions: list[OffsetForLeaderEpochResponsePartition] = field()


@message(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """The response of OffsetForLeaderEpoch."""

    throttle_time_ms: i32 = field("2+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    topics: list[OffsetForLeaderEpochResponseTopic] = field()
