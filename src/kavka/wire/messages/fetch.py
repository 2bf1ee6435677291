"""Read batches of records: consumers, and followers of a partition (KIP-227, KIP-320, KIP-392, KIP-595, KIP-951)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, i64, message, records, string, struct, uuid


@struct
class FetchRequestReplicaState:
    """A broker that follows, with the epoch that fences its former lives (KIP-903)."""

    replica_id: i32 = field(default=-1)
    replica_epoch: i64 = field(default=-1)


@struct
class FetchRequestPartition:
    """From where to read a partition."""

    partition: i32 = field()
    current_leader_epoch: i32 = field("9+", default=-1, ignorable=True)
    """The leader epoch that the reader knows; -1 disables the check."""
    fetch_offset: i64 = field()
    last_fetched_epoch: i32 = field("12+", default=-1)
    """The leader epoch of the last record that a follower has; the leader answers with
    `diverging_epoch` where its log differs.
    """
    log_start_offset: i64 = field("5+", default=-1, ignorable=True)
    """A follower's first offset, so that the leader knows the lowest one; -1 from a consumer."""
    partition_max_bytes: i32 = field()
    """The most bytes of this partition; the first batch may be larger."""
    replica_directory_id: uuid = field("17+", tag=0, ignorable=True)
    """The follower's directory; KRaft only."""


@struct
class FetchRequestTopic:
    """Partitions of one topic."""

    topic: string = field("0-12", ignorable=True)
    topic_id: uuid = field("13+", ignorable=True)
    partitions: list[FetchRequestPartition] = field()


@struct
class FetchRequestForgottenTopic:
    """Partitions that leave the session."""

    topic: string = field("7-12", ignorable=True)
    topic_id: uuid = field("13+", ignorable=True)
    partitions: list[i32] = field()


@message(api_key=1, versions="0-17", flexible="12+")
class FetchRequest:
    """Asks for records from offsets on; in a session it has only the changes since the last request."""

    cluster_id: string | None = field("12+", nullable="12+", default=None, tag=0, ignorable=True)
    """Checked by KRaft quorums only."""
    replica_id: i32 = field("0-14", default=-1)
    """The broker that follows; -1 for a consumer, -2 for a debugging one."""
    replica_state: FetchRequestReplicaState = field("15+", tag=1)
    """The fetching replica, since version 15."""
    max_wait_ms: i32 = field()
    """Maximum milliseconds to wait for `min_bytes`."""
    min_bytes: i32 = field()
    """The broker waits until so many bytes are there over all partitions."""
    max_bytes: i32 = field("3+", default=2147483647, ignorable=True)
    """The most bytes to send; the first batch is sent even when it is larger."""
    isolation_level: i8 = field("4+", ignorable=True)
    """0 reads to the high watermark, 1 (read_committed) to the last stable offset."""
    session_id: i32 = field("7+", ignorable=True)
    """0 outside of a session."""
    session_epoch: i32 = field("7+", default=-1, ignorable=True)
    """-1: no session, send everything. 0: a new session, please. Above: the next epoch of the
    session.
    """
    topics: list[FetchRequestTopic] = field()
    """Partitions to fetch; in a session, those that were added or changed."""
    forgotten_topics_data: list[FetchRequestForgottenTopic] = field("7+")
    """Partitions to remove from the session."""
    rack_id: string = field("11+", ignorable=True)
    """The consumer's rack, so that a replica near to it can be preferred (KIP-392)."""


@struct
class FetchResponseDivergingEpoch:
    """The end of a leader epoch in the leader's log; -1 and -1 when it was not said."""

    epoch: i32 = field(default=-1)
    end_offset: i64 = field(default=-1)


@struct
class FetchResponseCurrentLeader:
    """The current leader of a partition; -1 and -1 when it is unknown."""

    leader_id: i32 = field(default=-1)
    leader_epoch: i32 = field(default=-1)


@struct
class FetchResponseSnapshotId:
    """A snapshot of KRaft's metadata log."""

    end_offset: i64 = field(default=-1)
    epoch: i32 = field(default=-1)


@struct
class FetchResponseAbortedTransaction:
    """The records of this producer from this offset to its next abort marker do not count."""

    producer_id: i64 = field()
    first_offset: i64 = field()


@struct
class FetchResponsePartition:
    """Records of one partition."""

    partition_index: i32 = field()
    error_code: i16 = field()
    """OFFSET_OUT_OF_RANGE: below the log's start or above its end. NOT_LEADER_OR_FOLLOWER,
    FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, REPLICA_NOT_AVAILABLE, KAFKA_STORAGE_ERROR:
    leadership moved, or the reader is ahead. UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
    INCONSISTENT_TOPIC_ID: no such topic. TOPIC_AUTHORIZATION_FAILED.
    UNSUPPORTED_COMPRESSION_TYPE: the topic's compression.type is zstd, for a reader below
    version 10. CORRUPT_MESSAGE: the log is damaged there.
    """
    high_watermark: i64 = field()
    """The offset after the last record that all in-sync replicas have; -1 on error."""
    last_stable_offset: i64 = field("4+", default=-1, ignorable=True)
    """The offset below which all transactions are decided; readers with isolation level 1 get
    nothing above it.
    """
    log_start_offset: i64 = field("5+", default=-1, ignorable=True)
    """The first offset that the partition still has; -1 on error."""
    diverging_epoch: FetchResponseDivergingEpoch = field("12+", tag=0)
    """The epoch and end offset that the follower must truncate to: the last epoch that both logs have."""
    current_leader: FetchResponseCurrentLeader = field("12+", tag=1)
    """The leader, where the error is about leadership."""
    snapshot_id: FetchResponseSnapshotId = field("12+", tag=2)
    """The snapshot to fetch instead; KRaft's metadata log only."""
    aborted_transactions: list[FetchResponseAbortedTransaction] | None = field(
        "4+", nullable="4+", ignorable=True
    )
    """For isolation level 1: aborted transactions in the range, ordered by first offset. None
    otherwise.
    """
    preferred_read_replica: i32 = field("11+", default=-1)
    """A replica that the consumer should read from; -1 for none."""
    records: records | None = field(nullable="0+", default=None)
    """Whole batches, the first of which holds the offset asked for; the last may be cut off."""


@struct
class FetchResponseTopic:
    """Partitions of one topic."""

    topic: string = field("0-12", ignorable=True)
    topic_id: uuid = field("13+", ignorable=True)
    partitions: list[FetchResponsePartition] = field()


@struct
class FetchResponseNodeEndpoint:
    """The endpoint of a broker."""

    node_id: i32 = field()
    host: string = field()
    port: i32 = field()
    rack: string | None = field(nullable="0+", default=None)
    """None where the broker has no broker.rack."""


@message(api_key=1, versions="0-17", flexible="12+")
class FetchResponse:
    """Records, and how far the partitions reach."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field("7+", ignorable=True)
    """FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR:
    begin a new session.
    """
    session_id: i32 = field("7+")
    """0 when the broker keeps no session."""
    responses: list[FetchResponseTopic] = field()
    """In a session only partitions that have records, an error or moved marks."""
    node_endpoints: list[FetchResponseNodeEndpoint] = field("16+", tag=0)
    """Endpoints of the leaders named in `current_leader` (KIP-951)."""
