"""DescribeProducers: producers of partitions, and their open transactions (KIP-664). Followers answer, too."""

from __future__ import annotations

from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Slices
from kavka.broker.requests.repetitions import Repetitions
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.producer_state import ProducerEntry
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponseActiveProducer,
    DescribeProducersResponsePartition,
    DescribeProducersResponseTopic,
)


async def handle(
    slices: Slices,
    replica_manager: ReplicaManager,
    context: RequestContext,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse:
    """Answer each partition that is hosted here, as often as it is named."""
    pace = slices.pace()
    repetitions = Repetitions("DESCRIBE_PRODUCERS")
    rows: dict[TopicPartition, DescribeProducersResponsePartition] = {}
    topics = []
    for topic in request.topics:
        result = DescribeProducersResponseTopic(name=topic.name)
        topics.append(result)
        if pace.is_over():
            await pace.rest()
        for index in topic.partition_indexes:
            topic_partition = TopicPartition(topic.name, index)
            row = rows.get(topic_partition)
            if row is None:
                row = rows[topic_partition] = _partition(replica_manager, context, topic_partition)
            else:
                repetitions.add(row)
            result.partitions.append(row)
            if pace.is_over(1 + len(row.active_producers)):
                await pace.rest()
    return DescribeProducersResponse(topics=topics)


def _partition(
    replica_manager: ReplicaManager, context: RequestContext, topic_partition: TopicPartition
) -> DescribeProducersResponsePartition:
    replica: Replica | ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if context.allows(AclOperation.READ, AclResourceType.TOPIC, topic_partition.topic):
        replica = replica_manager.find(topic_partition)
    if isinstance(replica, ErrorCode):
        return DescribeProducersResponsePartition(
            partition_index=topic_partition.partition,
            error_code=replica,
            error_message=replica.message,
        )
    producers = [_producer(entry) for entry in replica.log.producers.entries()]
    return DescribeProducersResponsePartition(
        partition_index=topic_partition.partition, active_producers=producers
    )


def _producer(entry: ProducerEntry) -> DescribeProducersResponseActiveProducer:
    return DescribeProducersResponseActiveProducer(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
