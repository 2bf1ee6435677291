"""WriteTxnMarkers: a coordinator ends transactions in partitions that this broker leads.

An operator ends a hanging transaction by it, too (`kafka-transactions.sh abort`, KIP-664), so a lone broker serves it.
A coordinator epoch is the leader epoch of a partition of `__transaction_state`. A newer one than any of these would
have the coordinator itself refused for the rest of the producer's life, so it is refused instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.control.watched_registry import WatchedRegistry
from kavka.broker.lazy import Lazy
from kavka.broker.metadata.cache import TRANSACTIONS_TOPIC, MetadataCache
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Pace
from kavka.ids import TopicPartition
from kavka.registry.interface import Registry, RegistryRefused, sync
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)
from kavka.wire.stored import znodes

if TYPE_CHECKING:
    from kavka.broker.coordination.marker_appends import MarkerAppender


async def handle(
    has_own_registry: bool,
    registry: Registry,
    metadata: MetadataCache,
    marker_appender: Lazy[MarkerAppender],
    context: RequestContext,
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse:
    """Answer each marker in each partition, once."""
    claimed = max((marker.coordinator_epoch for marker in request.markers), default=-1)
    newest = _known_epoch(metadata)
    if claimed > newest and not has_own_registry:
        # A coordinator may begin before this broker is notified that it leads.
        newest = max(newest, await _stored_epoch(registry))
    distinct = await _without_duplicates(request, context.pace)
    return await marker_appender.get().write(distinct, newest, context.pace)


def _known_epoch(
    metadata: MetadataCache,
) -> int:
    """Return the newest coordinator epoch that this broker knows of; 0 is what tools say where there was none."""
    topic = metadata.topics.get(TRANSACTIONS_TOPIC)
    known = () if topic is None else topic.partitions
    return max((partition.leader_epoch for partition in known), default=0)


async def _stored_epoch(
    registry: Registry,
) -> int:
    """Return the newest coordinator epoch that the registry has. Raise ConnectionError when it does not answer."""
    await sync(registry)
    try:
        names = await registry.children(f"{znodes.topic_path(TRANSACTIONS_TOPIC)}/partitions")
    except RegistryRefused:
        return 0
    numbers = [int(name) for name in names if name.isdecimal()]
    watching = WatchedRegistry(registry, lambda _changed: None)
    states = await watching.states(TopicPartition(TRANSACTIONS_TOPIC, n) for n in numbers)
    return max((state[0].leader_epoch for state in states.values() if state), default=0)


async def _without_duplicates(
    request: WriteTxnMarkersRequest, pace: Pace
) -> WriteTxnMarkersRequest:
    """Return the request with what it names twice once: a second marker would end nothing."""
    asked: dict[tuple[int, int, bool, int, int], dict[str, dict[int, None]]] = {}
    for marker in request.markers:
        of = marker.producer_id, marker.producer_epoch, marker.transaction_result
        by = marker.coordinator_epoch, marker.transaction_version
        known = asked.setdefault((*of, *by), {})
        for topic in marker.topics:
            known.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
            if pace.is_over(1 + len(topic.partition_indexes) // 8):
                await pace.rest()
        if pace.is_over():
            await pace.rest()
    markers = []
    for key, names in asked.items():
        topics = []
        for name, indexes in names.items():
            topics.append(WriteTxnMarkersRequestTopic(name=name, partition_indexes=list(indexes)))
            if pace.is_over(1 + len(indexes) // 8):
                await pace.rest()
        markers.append(
            WriteTxnMarkersRequestMarker(
                producer_id=key[0],
                producer_epoch=key[1],
                transaction_result=key[2],
                topics=topics,
                coordinator_epoch=key[3],
                transaction_version=key[4],
            )
        )
        if pace.is_over():
            await pace.rest()
    return WriteTxnMarkersRequest(markers=markers)
