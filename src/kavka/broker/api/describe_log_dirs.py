"""DescribeLogDirs: the log directories, what is in them, and how much room is left."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.storage.log_store import DirectoryReport
from kavka.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseLogDir,
    DescribeLogDirsResponsePartition,
    DescribeLogDirsResponseTopic,
)


def handle(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Describe every directory; null topics mean all."""
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(t.topic, p) for t in request.topics for p in t.partitions}
    reports = broker.replicas.describe_directories()
    return DescribeLogDirsResponse(results=[_directory(report, wanted) for report in reports])


def _directory(
    report: DirectoryReport, wanted: set[TopicPartition] | None
) -> DescribeLogDirsResponseLogDir:
    answer = DescribeLogDirsResponseLogDir(
        log_dir=report.path, total_bytes=report.total_bytes, usable_bytes=report.usable_bytes
    )
    if report.failure is not None:
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer
    topics: dict[str, DescribeLogDirsResponseTopic] = {}
    for where, size in sorted(report.sizes.items()):
        if wanted is not None and where not in wanted:
            continue
        topic = topics.setdefault(where.topic, DescribeLogDirsResponseTopic(name=where.topic))
        topic.partitions.append(
            DescribeLogDirsResponsePartition(
                partition_index=where.partition, partition_size=size, offset_lag=0
            )
        )
    answer.topics = list(topics.values())
    return answer
