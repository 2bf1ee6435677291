"""ListOffsets (key 2)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, i64, message, string, struct


@struct
class ListOffsetsRequestPartition:
    """Part of ListOffsetsRequest."""

    partition_index: i32 = field()
    current_leader_epoch: i32 = field("4+", default=-1, ignorable=True)
    timestamp: i64 = field()
    max_num_offsets: i32 = field("0", default=1)


@struct
class ListOffsetsRequestTopic:
    """Part of ListOffsetsRequest."""

    name: string = field()
    partitions: list[ListOffsetsRequestPartition] = field()


@message(api_key=2, versions="0-9", flexible="6+")
class ListOffsetsRequest:
    """The request of ListOffsets."""

    replica_id: i32 = field()
    isolation_level: i8 = field("2+")
    topics: list[ListOffsetsRequestTopic] = field()


@struct
class ListOffsetsResponsePartition:
    """Part of ListOffsetsResponse."""

    partition_index: i32 = field()
    error_code: i16 = field()
    old_style_offsets: list[i64] = field("0")
    timestamp: i64 = field("1+", default=-1)
    offset: i64 = field("1+", default=-1)
    leader_epoch: i32 = field("4+", default=-1)


@struct
class ListOffsetsResponseTopic:
    """Part of ListOffsetsResponse."""

    name: string = field()
    partitions: list[ListOffsetsResponsePartition] = field()


@message(api_key=2, versions="0-9", flexible="6+")
class ListOffsetsResponse:
    """The response of ListOffsets."""

    throttle_time_ms: i32 = field("2+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    topics: list[ListOffsetsResponseTopic] = field()
