"""WriteTxnMarkers: a coordinator ends transactions in partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Awaitable

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.broker.marker_appends import write_markers
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
    asked: dict[tuple[int, int, bool, int], dict[str, dict[int, None]]] = {}
    for marker in request.markers:
        of = marker.producer_id, marker.producer_epoch
        topics = asked.setdefault((*of, marker.transaction_result, marker.coordinator_epoch), {})
        for topic in marker.topics:
            topics.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return WriteTxnMarkersRequest(
        markers=[
            WriteTxnMarkersRequestMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=committed,
                topics=[
                    WriteTxnMarkersRequestTopic(name=name, partition_indexes=list(indexes))
                    for name, indexes in topics.items()
                ],
                coordinator_epoch=coordinator_epoch,
            )
            for (producer_id, producer_epoch, committed, coordinator_epoch), topics in asked.items()
        ]
    )
