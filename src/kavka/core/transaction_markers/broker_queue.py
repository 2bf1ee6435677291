"""The queue of one broker: which partitions go into its next request, and when."""

from __future__ import annotations

from typing import Final

from kavka.core.transaction_markers.partition_markers import MarkerRequest, PartitionMarkers
from kavka.ids import BrokerId, TopicPartition

_MAX_IN_TIME: Final = 4
"""Requests to one broker for partitions that take their markers, and as many for those that did not."""
_MAX_LATE: Final = 32
"""Requests to one broker that are late and do not count among these."""
MAX_MARKERS: Final = 500
"""Of one request, which has more only when a single partition waits for more."""

_Ready = dict[TopicPartition, PartitionMarkers]


class BrokerQueue:
    """Partitions that are ready for a request to one broker, and the number of its requests in flight.

    Both are kept twice: for partitions that take their markers, and for isolated ones, which did not take one.
    """

    def __init__(self, broker_id: BrokerId) -> None:
        """Start empty."""
        self.broker_id = broker_id
        self._ready: tuple[_Ready, _Ready] = ({}, {})
        self._in_time = [0, 0]
        self._late = 0

    def add(self, partition: PartitionMarkers) -> None:
        """Add a partition to those that wait for a request."""
        self._ready[partition.is_isolated][partition.topic_partition] = partition

    def remove(self, topic_partition: TopicPartition) -> None:
        """Remove a partition from those that wait, if it does."""
        for ready in self._ready:
            ready.pop(topic_partition, None)

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits and nothing is in flight."""
        return not (any(self._ready) or any(self._in_time) or self._late)

    def take(self, number: int) -> MarkerRequest | None:
        """Return the next request: all that is ready, up to a bound, or one isolated partition; None without place."""
        for is_isolated in (False, True):
            ready = self._ready[is_isolated]
            if ready and self._in_time[is_isolated] < _MAX_IN_TIME:
                self._in_time[is_isolated] += 1
                some = [_take_one(ready)] if is_isolated else _take_some(ready)
                return MarkerRequest(number, self.broker_id, some, is_isolated=is_isolated)
        return None

    def begin(self, number: int, partitions: list[PartitionMarkers]) -> MarkerRequest:
        """Return a request with partitions that did not wait here."""
        self._in_time[False] += 1
        return MarkerRequest(number, self.broker_id, partitions, is_isolated=False)

    def add_late(self, request: MarkerRequest) -> None:
        """Allow another request in place of one that is not answered, up to a bound."""
        if self._late < _MAX_LATE:
            self._late += 1
            self._in_time[request.is_isolated] -= 1
            request.is_late = True

    def release(self, request: MarkerRequest) -> None:
        """Allow another request in place of one that has ended."""
        if request.is_late:
            self._late -= 1
        else:
            self._in_time[request.is_isolated] -= 1


def _take_one(ready: _Ready) -> PartitionMarkers:
    return ready.pop(next(iter(ready)))


def _take_some(ready: _Ready) -> list[PartitionMarkers]:
    """Take the partitions that wait longest, as many as one request has room for, but at least one."""
    some = [_take_one(ready)]
    count = len(some[0].markers)
    while ready:
        count += len(next(iter(ready.values())).markers)
        if count > MAX_MARKERS:
            break
        some.append(_take_one(ready))
    return some
