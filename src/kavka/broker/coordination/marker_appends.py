"""The ends of transactions, written by the leaders of the partitions that took part (WriteTxnMarkers).

A marker is answered when it is on all replicas in sync. In a partition of `__consumer_offsets` it also decides about
the offsets that were committed in the transaction: the group coordinator has done so when the marker is answered.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kavka.broker.partitions.replica import AppendOutcome
from kavka.broker.produce.delayed_produce import Append, wait_until_replicated, wait_until_written
from kavka.broker.requests.pace import UNPACED, Pace
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponsePartition,
    WriteTxnMarkersResponseTopic,
)
from kavka.wire.records.control import ControlType, EndMarker

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators
    from kavka.broker.lazy import Lazy
    from kavka.broker.partitions.replica_manager import ReplicaManager
    from kavka.broker.requests.purgatory import Purgatory

log = logging.getLogger(__name__)

_Row = WriteTxnMarkersResponsePartition


class MarkerAppender:
    """Appends the markers of transactions to the partitions that this broker leads."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        groups: Lazy[GroupCoordinators],
        produce_purgatory: Purgatory,
        timeout_ms: int,
    ) -> None:
        """Append nothing yet; replicas may take `timeout_ms` to have a marker (`request.timeout.ms`)."""
        self._replica_manager = replica_manager
        self._groups = groups
        self._produce_purgatory = produce_purgatory
        self._timeout_ms = timeout_ms

    async def write(
        self,
        request: WriteTxnMarkersRequest,
        newest_epoch: int | None = None,
        pace: Pace = UNPACED,
    ) -> WriteTxnMarkersResponse:
        """Append every marker to its partitions, without `pace` all in this iteration of the loop; wait for replicas.

        `newest_epoch` is the newest that a coordinator has, for markers from the network; None does not check.
        """
        waiting: list[tuple[_Row, Append]] = []
        markers = []
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                rows = []
                for index in topic.partition_indexes:
                    row = _Row(partition_index=index)
                    topic_partition = TopicPartition(topic.name, index)
                    append = self._append(topic_partition, marker, newest_epoch)
                    if isinstance(append, ErrorCode):
                        row.error_code = append
                    else:
                        waiting.append((row, append))
                    rows.append(row)
                    if pace.is_over():
                        await pace.rest()
                topics.append(WriteTxnMarkersResponseTopic(name=topic.name, partitions=rows))
                if pace.is_over():
                    await pace.rest()
            markers.append(
                WriteTxnMarkersResponseMarker(producer_id=marker.producer_id, topics=topics)
            )
            if pace.is_over():
                await pace.rest()
        await self._wait_until_replicated(waiting)
        return WriteTxnMarkersResponse(markers=markers)

    def _append(
        self,
        topic_partition: TopicPartition,
        marker: WriteTxnMarkersRequestMarker,
        newest_epoch: int | None,
    ) -> Append | ErrorCode:
        replica = self._replica_manager.find(topic_partition)
        if isinstance(replica, ErrorCode):
            return replica
        if newest_epoch is not None:
            seen = replica.log.producers.coordinator_epoch(marker.producer_id)
            if marker.coordinator_epoch > max(newest_epoch, seen):
                log.warning(
                    "marker refused partition=%s producer=%d coordinator_epoch=%d newest=%d",
                    *(topic_partition, marker.producer_id, marker.coordinator_epoch, newest_epoch),
                )
                return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        committed = marker.transaction_result
        kind = ControlType.COMMIT if committed else ControlType.ABORT
        end = EndMarker(kind, marker.coordinator_epoch)
        outcome = replica.append_marker(
            marker.producer_id, marker.producer_epoch, end, marker.transaction_version
        )
        if outcome.error is not ErrorCode.NONE:
            _log_refusal(topic_partition, marker, outcome)
            return outcome.error
        self._groups.get().marker_appended(
            topic_partition, marker.producer_id, committed=committed, end_offset=outcome.end_offset
        )
        return Append(replica, outcome)

    async def _wait_until_replicated(self, waiting: list[tuple[_Row, Append]]) -> None:
        """Set the outcomes of the markers in the rows."""
        codes = await wait_until_written([append for _row, append in waiting])
        there = []
        for (row, append), code in zip(waiting, codes, strict=True):
            if code is ErrorCode.NONE:
                there.append((row, append))
            else:
                row.error_code = code
        if there:
            appends = [append for _row, append in there]
            codes = await wait_until_replicated(self._produce_purgatory, appends, self._timeout_ms)
            for (row, _append), code in zip(there, codes, strict=True):
                row.error_code = code


def _log_refusal(
    topic_partition: TopicPartition, marker: WriteTxnMarkersRequestMarker, outcome: AppendOutcome
) -> None:
    what = "marker refused partition=%s producer=%d epoch=%d coordinator_epoch=%d error=%s"
    epochs = (marker.producer_epoch, marker.coordinator_epoch)
    log.info(what, topic_partition, marker.producer_id, *epochs, outcome.error.name)
