"""DescribeLogDirs: the log directories, what is in them, and how much room is left."""

from __future__ import annotations

from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Pace, Slices
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.storage.store.log_store import DirectoryReport
from kavka.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseLogDir,
    DescribeLogDirsResponsePartition,
    DescribeLogDirsResponseTopic,
)


async def handle(
    slices: Slices,
    replica_manager: ReplicaManager,
    context: RequestContext,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse:
    """Describe every directory; null topics mean all."""
    pace = slices.pace()
    wanted = None
    if request.topics is not None:
        wanted = await _known(replica_manager, request.topics, pace)
    reports = await replica_manager.describe_directories()
    return DescribeLogDirsResponse(
        results=[await _directory(replica_manager, report, wanted, pace) for report in reports]
    )


async def _known(
    replica_manager: ReplicaManager, topics: list[DescribeLogDirsRequestTopic], pace: Pace
) -> set[TopicPartition]:
    """Return the partitions that are asked for and have a log here."""
    store = replica_manager.store
    known = set()
    for topic in topics:
        if pace.is_over():
            await pace.rest()
        for index in topic.partitions:
            topic_partition = TopicPartition(topic.topic, index)
            if store.get(topic_partition) is not None or store.future(topic_partition) is not None:
                known.add(topic_partition)
            if pace.is_over():
                await pace.rest()
    return known


async def _directory(
    replica_manager: ReplicaManager,
    report: DirectoryReport,
    wanted: set[TopicPartition] | None,
    pace: Pace,
) -> DescribeLogDirsResponseLogDir:
    result = DescribeLogDirsResponseLogDir(
        log_dir=report.path, total_bytes=report.total_bytes, usable_bytes=report.usable_bytes
    )
    if report.failure is not None:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    topics: dict[str, DescribeLogDirsResponseTopic] = {}
    for sizes, is_future in ((report.sizes, False), (report.future_sizes, True)):
        for topic_partition, size in sorted(sizes.items()):
            if wanted is not None and topic_partition not in wanted:
                continue
            topic = topics.setdefault(
                topic_partition.topic, DescribeLogDirsResponseTopic(name=topic_partition.topic)
            )
            topic.partitions.append(
                DescribeLogDirsResponsePartition(
                    partition_index=topic_partition.partition,
                    partition_size=size,
                    offset_lag=_lag(replica_manager, topic_partition, is_future=is_future),
                    is_future_key=is_future,
                )
            )
            if pace.is_over():
                await pace.rest()
    result.topics = list(topics.values())
    return result


def _lag(
    replica_manager: ReplicaManager, topic_partition: TopicPartition, *, is_future: bool
) -> int:
    """Return how far a copy is behind its log, or a log behind the high watermark."""
    store = replica_manager.store
    log, future = store.get(topic_partition), store.future(topic_partition)
    if is_future:
        if log is None or future is None:
            return 0
        return max(0, log.log_end_offset - future.log_end_offset)
    replica = replica_manager.find(topic_partition)
    if log is None or not isinstance(replica, Replica):
        return 0
    return max(0, replica.partition.high_watermark - log.log_end_offset)
