"""OffsetCommit (key 8)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string, struct


@struct
class OffsetCommitRequestPartition:
    """Part of OffsetCommitRequest."""

    partition_index: i32 = field()
    committed_offset: i64 = field()
    committed_leader_epoch: i32 = field("6+", default=-1, ignorable=True)
    commit_timestamp: i64 = field("1", default=-1)
    committed_metadata: string | None = field(nullable="0+", default=None)


@struct
class OffsetCommitRequestTopic:
    """Part of OffsetCommitRequest."""

    name: string = field()
    partitions: list[OffsetCommitRequestPartition] = field()


@message(api_key=8, versions="0-9", flexible="8+")
class OffsetCommitRequest:
    """The request of OffsetCommit."""

    group_id: string = field()
    generation_id_or_member_epoch: i32 = field("1+", default=-1, ignorable=True)
    member_id: string = field("1+", ignorable=True)
    group_instance_id: string | None = field("7+", nullable="7+", default=None)
    retention_time_ms: i64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field()


@struct
class OffsetCommitResponsePartition:
    """Part of OffsetCommitResponse."""

    partition_index: i32 = field()
    error_code: i16 = field()


@struct
class OffsetCommitResponseTopic:
    """Part of OffsetCommitResponse."""

    name: string = field()
    partitions: list[OffsetCommitResponsePartition] = field()


@message(api_key=8, versions="0-9", flexible="8+")
class OffsetCommitResponse:
    """The response of OffsetCommit."""

    throttle_time_ms: i32 = field("3+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    topics: list[OffsetCommitResponseTopic] = field()
