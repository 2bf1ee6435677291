"""A partition that has yet to get markers, and a request with the markers of some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kavka.core.partition import NO_LEADER
from kavka.core.transaction.events import MarkersWritten, SendMarkers
from kavka.core.transaction_markers.events import Coordinator, ReportWritten, TransactionMarkers
from kavka.ids import BrokerId, TopicPartition

_FIRST_PAUSE_MS: Final = 20
_MAX_PAUSE_MS: Final = 500


class Marker(NamedTuple):
    """A marker that a partition does not have yet. It is compared by identity: each `SendMarkers` has its own."""

    coordinator: Coordinator
    transaction: SendMarkers


class DeletionCheck(NamedTuple):
    """A request to the registry, and the markers that its response is about: later ones may be of a new topic."""

    number: int
    markers: dict[int, Marker]


class PartitionMarkers:
    """The markers of a partition. It is ready (in its leader's queue), in flight (in a request) or pausing."""

    __slots__ = (
        "check",
        "check_pause_ms",
        "is_isolated",
        "is_pausing",
        "leader",
        "markers",
        "pause_ms",
        "request",
        "timer",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        """Start without markers."""
        self.topic_partition = topic_partition
        self.markers: dict[int, Marker] = {}  # by producer id, which has one transaction at a time
        self.leader = NO_LEADER  # the broker in whose queue or request it is
        self.request: MarkerRequest | None = None  # in flight
        self.is_pausing = False
        self.pause_ms = 0
        self.is_isolated = False
        # The timer that counts: it ends the pause, or checks again whether the partition is deleted.
        self.timer: int | None = None
        self.check: DeletionCheck | None = None  # on its way
        self.check_pause_ms = 0

    def next_pause_ms(self) -> int:
        """Return how long the partition pauses after a marker was not written."""
        self.pause_ms = _longer(self.pause_ms)
        return self.pause_ms

    def next_check_pause_ms(self) -> int:
        """Return the time to the next check whether the partition is deleted."""
        self.check_pause_ms = _longer(self.check_pause_ms)
        return self.check_pause_ms

    def trust(self) -> None:
        """Note that the partition takes its markers, or that another broker leads it: isolate it no longer."""
        self.is_isolated, self.pause_ms = False, 0


def _longer(pause_ms: int) -> int:
    return min(max(2 * pause_ms, _FIRST_PAUSE_MS), _MAX_PAUSE_MS)


class MarkerRequest:
    """A WriteTxnMarkers to one broker, in flight."""

    __slots__ = ("broker_id", "is_isolated", "is_late", "number", "taken")

    def __init__(
        self,
        number: int,
        broker_id: BrokerId,
        partitions: list[PartitionMarkers],
        *,
        is_isolated: bool,
    ) -> None:
        """Take all markers that the partitions have now."""
        self.number = number
        self.broker_id = broker_id
        self.is_isolated = is_isolated
        self.is_late = False
        self.taken = [(partition, dict(partition.markers)) for partition in partitions]
        for partition in partitions:
            partition.request = self

    def partitions(self) -> Iterator[tuple[PartitionMarkers, dict[int, Marker]]]:
        """Iterate over the partitions that still wait for this request, with what it has for them."""
        for partition, markers in self.taken:
            if partition.request is self:
                yield partition, markers

    def markers(self) -> list[TransactionMarkers]:
        """Return the markers that were not withdrawn since they were taken, those of one transaction together."""
        found: dict[int, TransactionMarkers] = {}
        for partition, markers in self.partitions():
            for producer_id, marker in markers.items():
                if partition.markers.get(producer_id) is not marker:
                    continue
                entry = found.get(producer_id)
                if entry is None:
                    coordinator, transaction = marker
                    entry = TransactionMarkers(coordinator.coordinator_epoch, transaction, [])
                    found[producer_id] = entry
                entry.partitions.append(partition.topic_partition)
        return list(found.values())


def report(written: Iterable[tuple[TopicPartition, Marker]]) -> list[ReportWritten]:
    """Return reports of partitions that have their marker, one for each transaction."""
    done: dict[int, tuple[Marker, list[TopicPartition]]] = {}
    for topic_partition, marker in written:
        done.setdefault(marker.transaction.producer_id, (marker, []))[1].append(topic_partition)
    return [
        ReportWritten(
            coordinator,
            MarkersWritten(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                tuple(sorted(partitions)),
            ),
        )
        for (coordinator, transaction), partitions in done.values()
    ]
