"""ListOffsets: offsets by time, and the ends of a log.

A leader with a high watermark below the start of its epoch could return less to a consumer than the leader before;
it results OFFSET_NOT_AVAILABLE instead (KIP-207).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Set

from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import SecondStage
from kavka.broker.requests.pace import UNPACED, Pace
from kavka.broker.requests.repetitions import Repetitions
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.storage.failures import CorruptFile
from kavka.storage.log.times import TimedOffset
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
_CONSUMER = -1
_DEBUGGER = -2
_FIRST_WITH_EPOCH = 4
_FIRST_UNAVAILABLE = 5
_FIRST_VERSIONS = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""The special timestamps, and the version that each came with."""
_NOTHING = TimedOffset(-1, -1, -1)


def handle(
    replica_manager: ReplicaManager, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | SecondStage:
    """Answer each partition that this broker leads; INVALID_REQUEST for one that is named twice, but in version 0.

    Nearly every request asks for the ends of logs, which are known: it is answered in this iteration of the loop. Times
    are looked up in the pool, one of a request after the other.
    """
    listing = _list_all(replica_manager, context, request)
    if context.large is not None or context.version == 0 or _asks_for_times(request):
        return SecondStage(listing)
    try:
        listing.send(None)
    except StopIteration as stop:
        response: ListOffsetsResponse = stop.value
        return response
    raise AssertionError("the ends of logs are not waited for")


def _asks_for_times(request: ListOffsetsRequest) -> bool:
    """Return whether a file may have to be read."""
    return any(
        asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP
        for topic in request.topics
        for asked in topic.partitions
    )


async def _list_all(
    replica_manager: ReplicaManager, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    pace = context.pace
    repeated = _repeated(request) if pace is UNPACED else await _repeated_at(request, pace)
    repetitions = Repetitions("LIST_OFFSETS")
    topics = []
    for topic in request.topics:
        if pace.is_over():
            await pace.rest()
        partitions = []
        refused = _refusal(context, topic.name)
        for asked in topic.partitions:
            result = ListOffsetsResponsePartition(partition_index=asked.partition_index)
            error = refused
            is_repeated = (topic.name, asked.partition_index) in repeated
            if context.version > 0 and error is ErrorCode.NONE:
                error = _misuse(asked.timestamp, context.version, is_repeated=is_repeated)
            if error is ErrorCode.NONE:
                topic_partition = TopicPartition(topic.name, asked.partition_index)
                error = await _fill(
                    result, replica_manager, context, request, topic_partition, asked
                )
            result.error_code = error
            partitions.append(result)
            if is_repeated:
                repetitions.add(result)
            if pace.is_over():
                await pace.rest()
        topics.append(ListOffsetsResponseTopic(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _refusal(context: RequestContext, topic: str) -> ErrorCode:
    if context.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic):
        return ErrorCode.NONE
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _repeated(request: ListOffsetsRequest) -> Set[tuple[str, int]]:
    """Return the partitions that are named more than once."""
    named = [
        (topic.name, row.partition_index) for topic in request.topics for row in topic.partitions
    ]
    if len(set(named)) == len(named):
        return frozenset()
    return {named_partition for named_partition, count in Counter(named).items() if count > 1}


async def _repeated_at(request: ListOffsetsRequest, pace: Pace) -> Set[tuple[str, int]]:
    """Return what `_repeated` does, in time slices."""
    named: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()
    for topic in request.topics:
        if pace.is_over():
            await pace.rest()
        for asked in topic.partitions:
            named_partition = topic.name, asked.partition_index
            (repeated if named_partition in named else named).add(named_partition)
            if pace.is_over():
                await pace.rest()
    return repeated


def _misuse(timestamp: int, version: int, *, is_repeated: bool) -> ErrorCode:
    """Return the error of a request for a partition, in any state of the partition."""
    if is_repeated:
        return ErrorCode.INVALID_REQUEST
    if timestamp < 0 and not 0 < _FIRST_VERSIONS.get(timestamp, 0) <= version:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


async def _fill(
    result: ListOffsetsResponsePartition,
    replica_manager: ReplicaManager,
    context: RequestContext,
    request: ListOffsetsRequest,
    topic_partition: TopicPartition,
    asked: ListOffsetsRequestPartition,
) -> ErrorCode:
    """Fill the response with what is found, or return the error."""
    replica = replica_manager.find(topic_partition)
    if isinstance(replica, ErrorCode):
        return replica
    partition = replica.partition
    may_follow = context.version > 0 and request.replica_id == _DEBUGGER
    check = partition.check_leader_epoch if may_follow else partition.check_leader
    error = check(asked.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return error
    try:
        if context.version == 0:
            result.old_style_offsets = await _old_style(replica, asked)
            return ErrorCode.NONE
        found = await _find(replica, asked.timestamp, request)
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    except (CorruptFile, CorruptBatch) as fault:
        log.error("times cannot be looked up partition=%s reason=%s", topic_partition, fault)
        return ErrorCode.CORRUPT_MESSAGE
    if found is None:
        is_new = context.version >= _FIRST_UNAVAILABLE
        return ErrorCode.OFFSET_NOT_AVAILABLE if is_new else ErrorCode.LEADER_NOT_AVAILABLE
    result.timestamp, result.offset = found.timestamp, found.offset
    if context.version >= _FIRST_WITH_EPOCH:
        result.leader_epoch = found.leader_epoch
    return ErrorCode.NONE


async def _find(
    replica: Replica, timestamp: int, request: ListOffsetsRequest
) -> TimedOffset | None:
    """Return what a timestamp, or one of the special ones, stands for; None when it is too early to say."""
    log, partition = replica.log, replica.partition
    is_consumer = request.replica_id == _CONSUMER
    end = partition.readable_end(
        read_committed=is_consumer and request.isolation_level == _READ_COMMITTED,
        is_follower=not is_consumer,
    )
    lags = is_consumer and partition.leader_epoch_start_offset > partition.high_watermark
    match timestamp:
        case _ if timestamp == LATEST:
            return None if lags else TimedOffset(-1, end, partition.leader_epoch)
        case _ if timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = log.log_start_offset
            return TimedOffset(-1, start, _epoch_at(replica, start))
        case _ if timestamp == LATEST_TIERED:  # tiered storage is not here, so nothing is in it
            return _NOTHING
        case _ if timestamp == MAX_TIMESTAMP:
            found = await log.latest_timestamp()
        case _:
            found = await log.offset_for_timestamp(timestamp)
    if found is not None and found.offset < end:
        return found
    return None if lags else _NOTHING


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
    elif asked.timestamp < 0:
        offsets = []
    else:
        found = await log.offset_for_timestamp(asked.timestamp)
        limit = end if found is None else found.offset
        offsets = [base for base in bases if base <= limit]
    unique = sorted(set(offsets), reverse=True)
    return unique[: max(0, asked.max_num_offsets)]
