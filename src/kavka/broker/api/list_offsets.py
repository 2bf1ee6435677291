"""ListOffsets: offsets by time, and the ends of a log."""

from __future__ import annotations

import logging

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.broker.replica import Replica
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.storage.failures import CorruptFile
from kavka.storage.log_times import TimedOffset
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from kavka.wire.records.corrupt import CorruptBatch

log = logging.getLogger(__name__)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
_READ_COMMITTED = 1
_FIRST_WITH_EPOCH = 4
_NOTHING = TimedOffset(-1, -1, -1)


async def handle(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    """Answer each partition that this broker leads."""
    topics = []
    for topic in request.topics:
        partitions = [
            await _answer(
                broker, context, request, TopicPartition(topic.name, p.partition_index), p
            )
            for p in topic.partitions
        ]
        topics.append(ListOffsetsResponseTopic(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


async def _answer(
    broker: Broker,
    context: RequestContext,
    request: ListOffsetsRequest,
    where: TopicPartition,
    asked: ListOffsetsRequestPartition,
) -> ListOffsetsResponsePartition:
    answer = ListOffsetsResponsePartition(partition_index=where.partition)
    replica = broker.replicas.find(where)
    if isinstance(replica, ErrorCode):
        answer.error_code = replica
        return answer
    error = replica.partition.check_leader(asked.current_leader_epoch)
    if error is not ErrorCode.NONE:
        answer.error_code = error
        return answer
    try:
        if context.version == 0:
            answer.old_style_offsets = await _old_style(replica, asked)
            return answer
        committed = request.isolation_level == _READ_COMMITTED
        found = await _find(replica, asked.timestamp, read_committed=committed)
    except OSError:
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer
    except (CorruptFile, CorruptBatch) as error:
        log.error("times cannot be looked up partition=%s reason=%s", where, error)
        answer.error_code = ErrorCode.CORRUPT_MESSAGE
        return answer
    answer.timestamp, answer.offset = found.timestamp, found.offset
    if context.version >= _FIRST_WITH_EPOCH:
        answer.leader_epoch = found.leader_epoch
    return answer


async def _find(replica: Replica, timestamp: int, *, read_committed: bool) -> TimedOffset:
    """Return what a timestamp, or one of the special ones, stands for."""
    log, partition = replica.log, replica.partition
    end = partition.readable_end(read_committed=read_committed)
    match timestamp:
        case _ if timestamp == LATEST:
            return TimedOffset(-1, end, partition.leader_epoch)
        case _ if timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = log.log_start_offset
            return TimedOffset(-1, start, _epoch_at(replica, start))
        case _ if timestamp == MAX_TIMESTAMP:
            found = await log.latest_timestamp()
        case _ if timestamp < 0:  # tiered storage is not here, so nothing is in it
            return _NOTHING
        case _:
            found = await log.offset_for_timestamp(timestamp)
    return _NOTHING if found is None or found.offset >= end else found


def _epoch_at(replica: Replica, offset: int) -> int:
    epoch = replica.log.epochs.epoch_at(offset)
    return epoch if epoch >= 0 else replica.partition.leader_epoch


async def _old_style(replica: Replica, asked: ListOffsetsRequestPartition) -> list[int]:
    """Answer version 0: offsets of segments before a time, newest first."""
    log, end = replica.log, replica.partition.high_watermark
    if asked.timestamp == EARLIEST:
        return [log.log_start_offset][: max(0, asked.max_num_offsets)]
    bases = [segment.base_offset for segment in log.segments if segment.size]
    bases = [max(base, log.log_start_offset) for base in bases]
    if asked.timestamp == LATEST:
        offsets = [*bases, end]
    else:
        found = await log.offset_for_timestamp(asked.timestamp)
        limit = end if found is None else found.offset
        offsets = [base for base in bases if base <= limit]
    unique = sorted(set(offsets), reverse=True)
    return unique[: max(0, asked.max_num_offsets)]
