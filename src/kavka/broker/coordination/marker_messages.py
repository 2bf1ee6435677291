"""WriteTxnMarkers, as the machine of transaction markers knows it and on the wire."""

from __future__ import annotations

from kavka.core.transaction_markers.events import MarkerCodes, TransactionMarkers
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)


def request_of(markers: list[TransactionMarkers]) -> WriteTxnMarkersRequest:
    """Return the request with these markers."""
    return WriteTxnMarkersRequest(markers=list(map(_marker, markers)))


def _marker(markers: TransactionMarkers) -> WriteTxnMarkersRequestMarker:
    topics: dict[str, WriteTxnMarkersRequestTopic] = {}
    for name, partition in markers.partitions:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = WriteTxnMarkersRequestTopic(name=name)
        topic.partition_indexes.append(partition)
    transaction = markers.transaction
    return WriteTxnMarkersRequestMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=transaction.committed,
        topics=list(topics.values()),
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=transaction.transaction_version,
    )


def codes_of(response: WriteTxnMarkersResponse) -> MarkerCodes:
    """Return the codes of a response, by producer id and partition."""
    return {
        (marker.producer_id, TopicPartition(topic.name, row.partition_index)): ErrorCode.of(
            row.error_code
        )
        for marker in response.markers
        for topic in marker.topics
        for row in topic.partitions
    }
