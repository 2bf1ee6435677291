"""The ends of transactions, written by the leaders of the partitions that took part (WriteTxnMarkers).

A marker is answered when it is on all replicas in sync. In a partition of `__consumer_offsets` it also decides about
the offsets that were committed in the transaction: the group coordinator has done so when the marker is answered.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from kavka.broker.partitions.replica import AppendOutcome, Replica
from kavka.broker.produce.delayed_produce import Append, wait_until_replicated, wait_until_written
from kavka.broker.requests.pace import UNPACED, Pace
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponsePartition,
    WriteTxnMarkersResponseTopic,
)
from kavka.wire.records.control import ControlType, EndMarker

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kavka.broker.coordination.group_coordinators import GroupCoordinators
    from kavka.broker.lazy import Lazy
    from kavka.broker.partitions.replica_manager import ReplicaManager
    from kavka.broker.requests.purgatory import Purgatory
    from kavka.core.transaction_markers.events import MarkerCodes, TransactionMarkers

log = logging.getLogger(__name__)

_Row = WriteTxnMarkersResponsePartition
_Key = tuple[int, TopicPartition]


class _Marker(NamedTuple):
    """The end of a producer's transaction, for any of its partitions."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int

    def for_replica(self) -> tuple[int, int, EndMarker, int]:
        """Return the arguments of `Replica.append_marker`."""
        kind = ControlType.COMMIT if self.committed else ControlType.ABORT
        end = EndMarker(kind, self.coordinator_epoch)
        return self.producer_id, self.producer_epoch, end, self.transaction_version


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

    def write_own(
        self, markers: list[TransactionMarkers]
    ) -> MarkerCodes | Coroutine[Any, Any, MarkerCodes]:
        """Append markers of this broker's own coordinators, in this iteration of the loop.

        Return their codes; or, if some wait for the disk or for replicas, what continues with them.
        """
        asked: dict[TopicPartition, list[_Marker]] = {}
        for coordinator_epoch, transaction, partitions in markers:
            marker = _Marker(
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.committed,
                coordinator_epoch,
                transaction.transaction_version,
            )
            for topic_partition in partitions:
                asked.setdefault(topic_partition, []).append(marker)
        codes: dict[_Key, ErrorCode] = {}
        waiting: list[tuple[_Key, Append]] = []
        for topic_partition, some in asked.items():
            appends = self._append_together(topic_partition, some)
            for marker, append in zip(some, appends, strict=True):
                key = (marker.producer_id, topic_partition)
                code = append if isinstance(append, ErrorCode) else _settled(append)
                if code is not None:
                    codes[key] = code
                elif isinstance(append, Append):
                    waiting.append((key, append))
        return self._add_later(codes, waiting) if waiting else codes

    def _append_together(
        self, topic_partition: TopicPartition, markers: list[_Marker]
    ) -> list[Append | ErrorCode]:
        """Append markers of different producers to a partition."""
        if len(markers) == 1:
            return [self._append(topic_partition, markers[0], None)]
        replica = self._replica_manager.find(topic_partition)
        if isinstance(replica, ErrorCode):
            return [replica] * len(markers)
        outcomes = replica.append_markers([marker.for_replica() for marker in markers])
        return [
            self._appended(topic_partition, replica, marker, outcome)
            for marker, outcome in zip(markers, outcomes, strict=True)
        ]

    async def _add_later(
        self, codes: dict[_Key, ErrorCode], waiting: list[tuple[_Key, Append]]
    ) -> MarkerCodes:
        found = await self._wait_until_replicated([append for _key, append in waiting])
        for (key, _append), code in zip(waiting, found, strict=True):
            codes[key] = code
        return codes

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
        for asked in request.markers:
            marker = _Marker(
                asked.producer_id,
                asked.producer_epoch,
                asked.transaction_result,
                asked.coordinator_epoch,
                asked.transaction_version,
            )
            topics = []
            for topic in asked.topics:
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
        codes = await self._wait_until_replicated([append for _row, append in waiting])
        for (row, _append), code in zip(waiting, codes, strict=True):
            row.error_code = code
        return WriteTxnMarkersResponse(markers=markers)

    def _append(
        self,
        topic_partition: TopicPartition,
        marker: _Marker,
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
        outcome = replica.append_marker(*marker.for_replica())
        return self._appended(topic_partition, replica, marker, outcome)

    def _appended(
        self,
        topic_partition: TopicPartition,
        replica: Replica,
        marker: _Marker,
        outcome: AppendOutcome,
    ) -> Append | ErrorCode:
        """Notify the group coordinator of a marker that is in the log, or log why it is not."""
        if outcome.error is not ErrorCode.NONE:
            _log_refusal(topic_partition, marker, outcome)
            return outcome.error
        self._groups.get().marker_appended(
            topic_partition,
            marker.producer_id,
            committed=marker.committed,
            end_offset=outcome.end_offset,
        )
        return Append(replica, outcome)

    async def _wait_until_replicated(self, appends: list[Append]) -> list[ErrorCode]:
        """Return what became of the markers: first the disk, then the replicas."""
        codes = await wait_until_written(appends)
        there = [at for at, code in enumerate(codes) if code is ErrorCode.NONE]
        if there:
            some = [appends[at] for at in there]
            found = await wait_until_replicated(self._produce_purgatory, some, self._timeout_ms)
            for at, code in zip(there, found, strict=True):
                codes[at] = code
        return codes


def _settled(append: Append) -> ErrorCode | None:
    """Return what became of a marker if that is known already, as it is where there is one replica."""
    return None if append.outcome.written is not None else append.acknowledgement()


def _log_refusal(topic_partition: TopicPartition, marker: _Marker, outcome: AppendOutcome) -> None:
    what = "marker refused partition=%s producer=%d epoch=%d coordinator_epoch=%d error=%s"
    epochs = (marker.producer_epoch, marker.coordinator_epoch)
    log.info(what, topic_partition, marker.producer_id, *epochs, outcome.error.name)
