"""Fetch (key 1)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, i64, message, records, string, struct, uuid


@struct
class FetchRequestReplicaState:
    """Part of FetchRequest."""

    replica_id: i32 = field(default=-1)
    replica_epoch: i64 = field(default=-1)


@struct
class FetchRequestPartition:
    """Part of FetchRequest."""

    partition: i32 = field()
    current_leader_epoch: i32 = field("9+", default=-1, ignorable=True)
    fetch_offset: i64 = field()
    last_fetched_epoch: i32 = field("12+", default=-1)
    log_start_offset: i64 = field("5+", default=-1, ignorable=True)
    partition_max_bytes: i32 = field()
    replica_directory_id: uuid = field("17+", tag=0, ignorable=True)


@struct
class FetchRequestTopic:
    """Part of FetchRequest."""

    topic: string = field("0-12", ignorable=True)
    topic_id: uuid = field("13+", ignorable=True)
    partitions: list[FetchRequestPartition] = field()


@struct
class FetchRequestForgottenTopic:
    """Part of FetchRequest."""

    topic: string = field("7-12", ignorable=True)
    topic_id: uuid = field("13+", ignorable=True)
    partitions: list[i32] = field()


@message(api_key=1, versions="0-17", flexible="12+")
class FetchRequest:
    """The request of Fetch."""

    cluster_id: string | None = field("12+", nullable="12+", default=None, tag=0, ignorable=True)
    replica_id: i32 = field("0-14", default=-1)
    replica_state: FetchRequestReplicaState = field("15+", tag=1)
    max_wait_ms: i32 = field()
    min_bytes: i32 = field()
    max_bytes: i32 = field("3+", default=2147483647, ignorable=True)
    isolation_level: i8 = field("4+", ignorable=True)
    session_id: i32 = field("7+", ignorable=True)
    session_epoch: i32 = field("7+", default=-1, ignorable=True)
    topics: list[FetchRequestTopic] = field()
    forgotten_topics_data: list[FetchRequestForgottenTopic] = field("7+")
    rack_id: string = field("11+", ignorable=True)


@struct
class FetchResponseDivergingEpoch:
    """Part of FetchResponse."""

    epoch: i32 = field(default=-1)
    end_offset: i64 = field(default=-1)


@struct
class FetchResponseCurrentLeader:
    """Part of FetchResponse."""

    leader_id: i32 = field(default=-1)
    leader_epoch: i32 = field(default=-1)


@struct
class FetchResponseSnapshotId:
    """Part of FetchResponse."""

    end_offset: i64 = field(default=-1)
    epoch: i32 = field(default=-1)


@struct
class FetchResponseAbortedTransaction:
    """Part of FetchResponse."""

    producer_id: i64 = field()
    first_offset: i64 = field()


@struct
class FetchResponsePartition:
    """Part of FetchResponse."""

    partition_index: i32 = field()
    error_code: i16 = field()
    high_watermark: i64 = field()
    last_stable_offset: i64 = field("4+", default=-1, ignorable=True)
    log_start_offset: i64 = field("5+", default=-1, ignorable=True)
    diverging_epoch: FetchResponseDivergingEpoch = field("12+", tag=0)
    current_leader: FetchResponseCurrentLeader = field("12+", tag=1)
    snapshot_id: FetchResponseSnapshotId = field("12+", tag=2)
    aborted_transactions: list[FetchResponseAbortedTransaction] | None = field(
        "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: i32 = field("11+", default=-1)
    records: records | None = field(nullable="0+", default=None)


@struct
class FetchResponseTopic:
    """Part of FetchResponse."""

    topic: string = field("0-12", ignorable=True)
    topic_id: uuid = field("13+", ignorable=True)
    partitions: list[FetchResponsePartition] = field()


@struct
class FetchResponseNodeEndpoint:
    """Part of FetchResponse."""

    node_id: i32 = field()
    host: string = field()
    port: i32 = field()
    rack: string | None = field(nullable="0+", default=None)


@message(api_key=1, versions="0-17", flexible="12+")
class FetchResponse:
    """The response of Fetch."""

    throttle_time_ms: i32 = field("1+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field("7+", ignorable=True)
    session_id: i32 = field("7+")
    responses: list[FetchResponseTopic] = field()
    node_endpoints: list[FetchResponseNodeEndpoint] = field("16+", tag=0)
