"""End offsets of leader epochs, by which a replica finds the point of divergence (KIP-101, KIP-320)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string, struct


@struct
class OffsetForLeaderEpochRequestPartition:
    """The epoch to return the end of."""

    partition: i32 = field()
    current_leader_epoch: i32 = field("2+", default=-1, ignorable=True)
    """The leader epoch that the client knows; -1 disables the check."""
    leader_epoch: i32 = field()


@struct
class OffsetForLeaderEpochRequestTopic:
    """Partitions of one topic."""

    topic: string = field()
    partitions: list[OffsetForLeaderEpochRequestPartition] = field()


@message(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """Asks a leader for the ends of epochs."""

    replica_id: i32 = field("3+", default=-2, ignorable=True)
    """The follower that asks; -1 for a consumer, -2 for a debugging one."""
    topics: list[OffsetForLeaderEpochRequestTopic] = field()


@struct
class OffsetForLeaderEpochResponsePartition:
    """The end of the largest epoch that is not above the one asked for."""

    error_code: i16 = field()
    """NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR, TOPIC_AUTHORIZATION_FAILED.
    """
    partition: i32 = field()
    leader_epoch: i32 = field("1+", default=-1, ignorable=True)
    """-1 when the log has no such epoch."""
    end_offset: i64 = field(default=-1)
    """The offset after the epoch's last record; -1 when the log has no such epoch."""


@struct
class OffsetForLeaderEpochResponseTopic:
    """Partitions of one topic."""

    topic: string = field()
    partitions: list[OffsetForLeaderEpochResponsePartition] = field()


@message(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """Ends of epochs."""

    throttle_time_ms: i32 = field("2+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    topics: list[OffsetForLeaderEpochResponseTopic] = field()
