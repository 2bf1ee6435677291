"""Offsets by time, and both ends of a partition (KIP-79, KIP-734, KIP-405)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, i64, message, string, struct


@struct
class ListOffsetsRequestPartition:
    """The timestamp to look up in a partition."""

    partition_index: i32 = field()
    current_leader_epoch: i32 = field("4+", default=-1, ignorable=True)
    """The leader epoch that the client knows; -1 disables the check."""
    timestamp: i64 = field()
    """Milliseconds since 1970: the first record at or after it. -1: the end. -2: the start. -3:
    the record of the largest timestamp (version 7 on). -4: the earliest on local disk (8 on).
    -5: the latest in tiered storage (9 on).
    """
    max_num_offsets: i32 = field("0", default=1)
    """Maximum number of segment base offsets to list, in version 0."""


@struct
class ListOffsetsRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[ListOffsetsRequestPartition] = field()


@message(api_key=2, versions="0-9", flexible="6+")
class ListOffsetsRequest:
    """Asks the leaders for offsets."""

    replica_id: i32 = field()
    """The broker that asks; -1 for a consumer, -2 for a debugging one."""
    isolation_level: i8 = field("2+")
    """With 1 (read_committed) the latest offset is the last stable one."""
    topics: list[ListOffsetsRequestTopic] = field()


@struct
class ListOffsetsResponsePartition:
    """The offset found."""

    partition_index: i32 = field()
    error_code: i16 = field()
    """NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH,
    UNKNOWN_LEADER_EPOCH. OFFSET_NOT_AVAILABLE (version 5 on), LEADER_NOT_AVAILABLE before:
    the new leader's high watermark has not caught up. UNSUPPORTED_FOR_MESSAGE_FORMAT: by time
    in logs of magic 0. TOPIC_AUTHORIZATION_FAILED, KAFKA_STORAGE_ERROR.
    """
    old_style_offsets: list[i64] = field("0")
    """Version 0: starts of segments and the end, the newest first."""
    timestamp: i64 = field("1+", default=-1)
    """The timestamp of the record found; -1 when none was, or when an end was asked for."""
    offset: i64 = field("1+", default=-1)
    """-1 when no record is that young."""
    leader_epoch: i32 = field("4+", default=-1)
    """The leader epoch of the record at the offset; -1 is unknown."""


@struct
class ListOffsetsResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[ListOffsetsResponsePartition] = field()


@message(api_key=2, versions="0-9", flexible="6+")
class ListOffsetsResponse:
    """Offsets of partitions."""

    throttle_time_ms: i32 = field("2+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    topics: list[ListOffsetsResponseTopic] = field()
