"""Ends transactions in the partitions that took part: from their coordinator to the leaders (KIP-98, KIP-1228)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, i64, message, string, struct


@struct
class WriteTxnMarkersRequestTopic:
    """Partitions of one topic."""

    name: string = field()
    partition_indexes: list[i32] = field()


@struct
class WriteTxnMarkersRequestMarker:
    """The outcome of one producer's transaction and the partitions to write it to."""

    producer_id: i64 = field()
    producer_epoch: i16 = field()
    transaction_result: boolean = field()
    """True for COMMIT, False for ABORT."""
    topics: list[WriteTxnMarkersRequestTopic] = field()
    coordinator_epoch: i32 = field()
    """The leader epoch of the partition of `__transaction_state` that decides; leaders refuse an
    older one than they have seen.
    """
    transaction_version: i8 = field("2+", default=0, ignorable=True)
    """2 where the end has raised the epoch: then a marker that is not above the epoch of an open
    transaction is late, and is of the one before (KIP-890); else 0.
    """


@message(api_key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest:
    """Markers, of several transactions at once."""

    markers: list[WriteTxnMarkersRequestMarker] = field()


@struct
class WriteTxnMarkersResponsePartition:
    """Result of writing the marker to one partition."""

    partition_index: i32 = field()
    error_code: i16 = field()
    """NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR,
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: to be sent again.
    INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED: the sender's time is over.
    UNSUPPORTED_FOR_MESSAGE_FORMAT, CORRUPT_MESSAGE, CLUSTER_AUTHORIZATION_FAILED.
    """


@struct
class WriteTxnMarkersResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[WriteTxnMarkersResponsePartition] = field()


@struct
class WriteTxnMarkersResponseMarker:
    """Results for one producer's marker."""

    producer_id: i64 = field()
    topics: list[WriteTxnMarkersResponseTopic] = field()


@message(api_key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse:
    """Result for each marker in each partition."""

    markers: list[WriteTxnMarkersResponseMarker] = field()
