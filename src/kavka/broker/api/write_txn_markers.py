"""WriteTxnMarkers: a coordinator ends transactions in partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Awaitable

from kavka.broker.broker import Broker
from kavka.broker.coordination.marker_appends import write_markers
from kavka.broker.dispatch import RequestContext
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)


def handle(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> Awaitable[WriteTxnMarkersResponse]:
    """Answer each marker in each partition, once."""
    return write_markers(broker, _without_duplicates(request))


def _without_duplicates(request: WriteTxnMarkersRequest) -> WriteTxnMarkersRequest:
    """Return the request with what it names twice once: a second marker would end nothing."""
    asked: dict[tuple[int, int, bool, int, int], dict[str, dict[int, None]]] = {}
    for marker in request.markers:
        of = marker.producer_id, marker.producer_epoch, marker.transaction_result
        by = marker.coordinator_epoch, marker.transaction_version
        topics = asked.setdefault((*of, *by), {})
        for topic in marker.topics:
            topics.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return WriteTxnMarkersRequest(
        markers=[
            WriteTxnMarkersRequestMarker(
                producer_id=of[0],
                producer_epoch=of[1],
                transaction_result=of[2],
                topics=[
                    WriteTxnMarkersRequestTopic(name=name, partition_indexes=list(indexes))
                    for name, indexes in topics.items()
                ],
                coordinator_epoch=of[3],
                transaction_version=of[4],
            )
            for of, topics in asked.items()
        ]
    )
