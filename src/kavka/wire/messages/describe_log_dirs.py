"""The log directories of a broker and what lies in them (KIP-113, KIP-827)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, i64, message, string, struct


@struct
class DescribeLogDirsRequestTopic:
    """Partitions of one topic."""

    topic: string = field()
    partitions: list[i32] = field()


@message(api_key=35, versions="0-4", flexible="2+")
class DescribeLogDirsRequest:
    """Asks a broker for its log directories."""

    topics: list[DescribeLogDirsRequestTopic] | None = field(nullable="0+")
    """None asks for all partitions."""


@struct
class DescribeLogDirsResponsePartition:
    """A replica in the directory."""

    partition_index: i32 = field()
    partition_size: i64 = field()
    """Bytes of all segments."""
    offset_lag: i64 = field()
    """Lag of the log end offset behind the high watermark, or behind the current replica for a future one.
    """
    is_future_key: boolean = field()
    """True if the replica is being moved here and will replace the one in another directory."""


@struct
class DescribeLogDirsResponseTopic:
    """Partitions of one topic."""

    name: string = field()
    partitions: list[DescribeLogDirsResponsePartition] = field()


@struct
class DescribeLogDirsResponseLogDir:
    """A log directory."""

    error_code: i16 = field()
    """KAFKA_STORAGE_ERROR: the directory is offline."""
    log_dir: string = field()
    """The directory's absolute path."""
    topics: list[DescribeLogDirsResponseTopic] = field()
    total_bytes: i64 = field("4+", default=-1, ignorable=True)
    """Of the file system; -1 is unknown."""
    usable_bytes: i64 = field("4+", default=-1, ignorable=True)
    """Free in the file system for this process; -1 is unknown."""


@message(api_key=35, versions="0-4", flexible="2+")
class DescribeLogDirsResponse:
    """The log directories of the broker asked."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field("3+", ignorable=True)
    """CLUSTER_AUTHORIZATION_FAILED."""
    results: list[DescribeLogDirsResponseLogDir] = field()
