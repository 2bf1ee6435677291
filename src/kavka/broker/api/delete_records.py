"""DeleteRecords: the start of a log moves up (KIP-107)."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.broker.metadata import INTERNAL_TOPICS
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.storage.failures import OffsetOutOfRange
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)

_HIGH_WATERMARK = -1


async def handle(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Move the log start offset of each partition; it is durable before the answer leaves."""
    topics = []
    for topic in request.topics:
        partitions = [
            _delete(broker, TopicPartition(topic.name, asked.partition_index), asked.offset)
            for asked in topic.partitions
        ]
        topics.append(DeleteRecordsResponseTopic(name=topic.name, partitions=partitions))
    await broker.replicas.write_checkpoints()
    for answered in topics:
        for answer in answered.partitions:
            replica = broker.replicas.find(TopicPartition(answered.name, answer.partition_index))
            if not answer.error_code and isinstance(replica, ErrorCode):  # its disk has failed, say
                answer.error_code, answer.low_watermark = replica, -1
    return DeleteRecordsResponse(topics=topics)


def _delete(broker: Broker, where: TopicPartition, offset: int) -> DeleteRecordsResponsePartition:
    answer = DeleteRecordsResponsePartition(partition_index=where.partition, low_watermark=-1)
    if where.topic in INTERNAL_TOPICS:
        answer.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return answer
    replica = broker.replicas.find(where)
    if isinstance(replica, ErrorCode):
        answer.error_code = replica
        return answer
    if "delete" not in replica.cleanup_policy:
        answer.error_code = ErrorCode.POLICY_VIOLATION
        return answer
    wanted = replica.partition.high_watermark if offset == _HIGH_WATERMARK else offset
    try:
        if wanted < 0:
            raise OffsetOutOfRange(
                wanted, replica.log.log_start_offset, replica.partition.high_watermark
            )
        answer.low_watermark = replica.delete_before(wanted)
    except OffsetOutOfRange:
        answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    return answer
