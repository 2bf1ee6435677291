"""Store how far a group has read (KIP-211, KIP-320, KIP-345)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string, struct


@struct
class OffsetCommitRequestPartition:
    """The offset to commit for one partition."""

    partition_index: i32 = field()
    committed_offset: i64 = field()
    """The next record to read."""
    committed_leader_epoch: i32 = field("6+", default=-1, ignorable=True)
    """The leader epoch of the last record read; -1 is unknown."""
    commit_timestamp: i64 = field("1", default=-1)
    """Milliseconds since 1970, in version 1; -1 takes the broker's time."""
    committed_metadata: string | None = field(nullable="0+", default=None)
    """The committer's own words, at most offset.metadata.max.bytes."""


@struct
class OffsetCommitRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[OffsetCommitRequestPartition] = field()


@message(api_key=8, versions="0-9", flexible="8+")
class OffsetCommitRequest:
    """Commit offsets as a member, or without membership while the group is empty."""

    group_id: string = field()
    generation_id_or_member_epoch: i32 = field("1+", default=-1, ignorable=True)
    """-1 commits without being a member: allowed while the group is empty."""
    member_id: string = field("1+", ignorable=True)
    group_instance_id: string | None = field("7+", nullable="7+", default=None)
    """The name of a static member (KIP-345); None for a dynamic one."""
    retention_time_ms: i64 = field("2-4", default=-1, ignorable=True)
    """Milliseconds to keep the offsets; -1 uses offsets.retention.minutes."""
    topics: list[OffsetCommitRequestTopic] = field()


@struct
class OffsetCommitResponsePartition:
    """Result for one offset."""

    partition_index: i32 = field()
    error_code: i16 = field()
    """REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID: the
    committer is not, or no more, a member. OFFSET_METADATA_TOO_LARGE,
    INVALID_COMMIT_OFFSET_SIZE, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED.
    NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED.
    """


@struct
class OffsetCommitResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[OffsetCommitResponsePartition] = field()


@message(api_key=8, versions="0-9", flexible="8+")
class OffsetCommitResponse:
    """Result for each partition's offset."""

    throttle_time_ms: i32 = field("3+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    topics: list[OffsetCommitResponseTopic] = field()
