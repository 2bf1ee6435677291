"""Delete committed offsets of a group (KIP-496)."""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, message, string, struct


@struct
class OffsetDeleteRequestPartition:
    """A partition to delete the offset of."""

    partition_index: i32 = field()


@struct
class OffsetDeleteRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[OffsetDeleteRequestPartition] = field()


@message(api_key=47, versions="0")
class OffsetDeleteRequest:
    """Offsets to delete; topics that members are subscribed to are refused."""

    group_id: string = field()
    topics: list[OffsetDeleteRequestTopic] = field()


@struct
class OffsetDeleteResponsePartition:
    """Result for one offset."""

    partition_index: i32 = field()
    error_code: i16 = field()
    """GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED."""


@struct
class OffsetDeleteResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[OffsetDeleteResponsePartition] = field()


@message(api_key=47, versions="0")
class OffsetDeleteResponse:
    """Result for each offset."""

    error_code: i16 = field()
    """GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (not of consumers), NOT_COORDINATOR,
    COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID,
    GROUP_AUTHORIZATION_FAILED.
    """
    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    topics: list[OffsetDeleteResponseTopic] = field()
