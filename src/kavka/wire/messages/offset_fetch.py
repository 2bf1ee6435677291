"""OffsetFetch (key 9)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, i64, message, string, struct


@struct
class OffsetFetchRequestTopic:
    """Part of OffsetFetchRequest."""

    name: string = field()
    partition_indexes: list[i32] = field()


@struct
class OffsetFetchRequestGroupTopic:
    """Part of OffsetFetchRequest."""

    name: string = field()
    partition_indexes: list[i32] = field()


@struct
class OffsetFetchRequestGroup:
    """Part of OffsetFetchRequest."""

    group_id: string = field()
    member_id: string | None = field("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: i32 = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestGroupTopic] | None = field(nullable="0+")


@message(api_key=9, versions="0-9", flexible="6+")
class OffsetFetchRequest:
    """The request of OffsetFetch."""

    group_id: string = field("0-7")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+")
    require_stable: boolean = field("7+")


@struct
class OffsetFetchResponsePartition:
    """Part of OffsetFetchResponse."""

    partition_index: i32 = field()
    committed_offset: i64 = field()
    committed_leader_epoch: i32 = field("5-7", default=-1, ignorable=True)
    metadata: string | None = field(nullable="0+", default=None)
    error_code: i16 = field()


@struct
class OffsetFetchResponseTopic:
    """Part of OffsetFetchResponse."""

    name: string = field()
    partitions: list[OffsetFetchResponsePartition] = field()


@struct
class OffsetFetchResponseGroupPartition:
    """Part of OffsetFetchResponse."""

    partition_index: i32 = field()
    committed_offset: i64 = field()
    committed_leader_epoch: i32 = field(default=-1)
    metadata: string | None = field(nullable="0+", default=None)
    error_code: i16 = field()


@struct
class OffsetFetchResponseGroupTopic:
    """Part of OffsetFetchResponse."""

    name: string = field()
    partitions: list[OffsetFetchResponseGroupPartition] = field()


@struct
class OffsetFetchResponseGroup:
    """Part of OffsetFetchResponse."""

    group_id: string = field()
    topics: list[OffsetFetchResponseGroupTopic] = field()
    error_code: i16 = field()


@message(api_key=9, versions="0-9", flexible="6+")
class OffsetFetchResponse:
    """The response of OffsetFetch."""

    throttle_time_ms: i32 = field("3+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    topics: list[OffsetFetchResponseTopic] = field("0-7")
    error_code: i16 = field("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+")
