"""Stores how far a group has read, valid if and only if a transaction commits (KIP-98, KIP-447)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string, struct


@struct
class TxnOffsetCommitRequestPartition:
    """The offset to commit for one partition."""

    partition_index: i32 = field()
    committed_offset: i64 = field()
    """The next record to read."""
    committed_leader_epoch: i32 = field("2+", default=-1, ignorable=True)
    """The leader epoch of the last record read; -1 is unknown."""
    committed_metadata: string | None = field(nullable="0+", default=None)
    """The committer's own words, at most offset.metadata.max.bytes."""


@struct
class TxnOffsetCommitRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[TxnOffsetCommitRequestPartition] = field()


@message(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    """Commits offsets of a group as part of a producer's transaction; the group's coordinator takes it.

    From version 5 on it adds the group to the transaction by itself (KIP-890).
    """

    transactional_id: string = field()
    group_id: string = field()
    producer_id: i64 = field()
    producer_epoch: i16 = field()
    generation_id: i32 = field("3+", default=-1)
    """-1 does not check that the committer is still a member (KIP-447)."""
    member_id: string = field("3+")
    group_instance_id: string | None = field("3+", nullable="3+", default=None)
    """The name of a static member (KIP-345); None for a dynamic one."""
    topics: list[TxnOffsetCommitRequestTopic] = field()


@struct
class TxnOffsetCommitResponsePartition:
    """Result for one offset."""

    partition_index: i32 = field()
    error_code: i16 = field()
    """ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID: the committer is not, or no
    more, a member. INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE: the transaction does not include
    the group. OFFSET_METADATA_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION,
    TOPIC_AUTHORIZATION_FAILED. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED. TRANSACTION_ABORTABLE from version 4.
    """


@struct
class TxnOffsetCommitResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[TxnOffsetCommitResponsePartition] = field()


@message(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    """Result for each partition's offset."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    topics: list[TxnOffsetCommitResponseTopic] = field()
