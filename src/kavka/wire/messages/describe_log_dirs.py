"""DescribeLogDirs (key 35)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, i64, message, string, struct


@struct
class DescribeLogDirsRequestTopic:
    """Part of DescribeLogDirsRequest."""

    topic: string = field()
    partitions: list[i32] = field()


@message(api_key=35, versions="0-4", flexible="2+")
class DescribeLogDirsRequest:
    """The request of DescribeLogDirs."""

    topics: list[DescribeLogDirsRequestTopic] | None = field(nullable="0+")


@struct
class DescribeLogDirsResponsePartition:
    """Part of DescribeLogDirsResponse."""

    partition_index: i32 = field()
    partition_size: i64 = field()
    offset_lag: i64 = field()
    is_future_key: boolean = field()


@struct
class DescribeLogDirsResponseTopic:
    """Part of DescribeLogDirsResponse."""

    name: string = field()
    partitions: list[DescribeLogDirsResponsePartition] = field()


@struct
class DescribeLogDirsResponseLogDir:
    """Part of DescribeLogDirsResponse."""

    error_code: i16 = field()
    log_dir: string = field()
    topics: list[DescribeLogDirsResponseTopic] = field()
    total_bytes: i64 = field("4+", default=-1, ignorable=True)
    usable_bytes: i64 = field("4+", default=-1, ignorable=True)


@message(api_key=35, versions="0-4", flexible="2+")
class DescribeLogDirsResponse:
    """The response of DescribeLogDirs."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field("3+", ignorable=True)
    results: list[DescribeLogDirsResponseLogDir] = field()
