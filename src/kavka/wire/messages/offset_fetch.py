"""Committed offsets of groups (KIP-447, KIP-709, KIP-848)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, i64, message, string, struct


@struct
class OffsetFetchRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partition_indexes: list[i32] = field()


@struct
class OffsetFetchRequestGroupTopic:
    """Partitions of one topic."""

    name: string = field()
    partition_indexes: list[i32] = field()


@struct
class OffsetFetchRequestGroup:
    """A group and the partitions to return offsets of."""

    group_id: string = field()
    member_id: string | None = field("9+", nullable="9+", default=None, ignorable=True)
    """For the consumer protocol of KIP-848, with `member_epoch`."""
    member_epoch: i32 = field("9+", default=-1, ignorable=True)
    """-1 when not asked as a member."""
    topics: list[OffsetFetchRequestGroupTopic] | None = field(nullable="0+")
    """None asks for all partitions with an offset."""


@message(api_key=9, versions="0-9", flexible="6+")
class OffsetFetchRequest:
    """Asks for committed offsets: of one group below version 8, of several from then on."""

    group_id: string = field("0-7")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7")
    """None asks for all partitions with an offset."""
    groups: list[OffsetFetchRequestGroup] = field("8+")
    require_stable: boolean = field("7+")
    """True if offsets with a pending transaction give UNSTABLE_OFFSET_COMMIT (KIP-447).
    """


@struct
class OffsetFetchResponsePartition:
    """A committed offset."""

    partition_index: i32 = field()
    committed_offset: i64 = field()
    """-1 where none is committed."""
    committed_leader_epoch: i32 = field("5-7", default=-1, ignorable=True)
    """-1 is unknown."""
    metadata: string | None = field(nullable="0+", default=None)
    error_code: i16 = field()
    """UNSTABLE_OFFSET_COMMIT, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED; below
    version 2 also errors of the group.
    """


@struct
class OffsetFetchResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[OffsetFetchResponsePartition] = field()


@struct
class OffsetFetchResponseGroupPartition:
    """A committed offset."""

    partition_index: i32 = field()
    committed_offset: i64 = field()
    """-1 where none is committed."""
    committed_leader_epoch: i32 = field(default=-1)
    """-1 is unknown."""
    metadata: string | None = field(nullable="0+", default=None)
    error_code: i16 = field()
    """UNSTABLE_OFFSET_COMMIT, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED."""


@struct
class OffsetFetchResponseGroupTopic:
    """Offsets of one topic."""

    name: string = field()
    partitions: list[OffsetFetchResponseGroupPartition] = field()


@struct
class OffsetFetchResponseGroup:
    """The offsets of one group."""

    group_id: string = field()
    topics: list[OffsetFetchResponseGroupTopic] = field()
    error_code: i16 = field()
    """NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED. A group that is not known is no error: its
    offsets are -1.
    """


@message(api_key=9, versions="0-9", flexible="6+")
class OffsetFetchResponse:
    """Committed offsets; the first fields answer for one group, `groups` for several."""

    throttle_time_ms: i32 = field("3+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    topics: list[OffsetFetchResponseTopic] = field("0-7")
    error_code: i16 = field("2-7", ignorable=True)
    """As that of a group below."""
    groups: list[OffsetFetchResponseGroup] = field("8+")
