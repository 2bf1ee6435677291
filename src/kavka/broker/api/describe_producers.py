"""DescribeProducers: who writes to partitions, and whose transactions are open (KIP-664). Followers answer, too."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
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


def handle(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Answer each partition that is hosted here, once."""
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponseTopic(
                name=name,
                partitions=[_partition(broker, TopicPartition(name, index)) for index in indexes],
            )
            for name, indexes in asked.items()
        ]
    )


def _partition(broker: Broker, where: TopicPartition) -> DescribeProducersResponsePartition:
    replica = broker.replicas.find(where)
    if isinstance(replica, ErrorCode):
        return DescribeProducersResponsePartition(
            partition_index=where.partition, error_code=replica, error_message=replica.message
        )
    producers = [_producer(entry) for entry in replica.log.producers.entries()]
    return DescribeProducersResponsePartition(
        partition_index=where.partition, active_producers=producers
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
