"""The decisions about transaction markers: events come in, effects go out. Pure.

    MarkersNeeded --> ready --> in flight: SendRequest --ResponseReceived--> ReportWritten
                        ^                      |
                        '------ pausing <------'  not written: no leader, too few replicas, no response

    a partition's code                      what follows
    NONE                                    it has its marker
    UNSUPPORTED_FOR_MESSAGE_FORMAT,         nothing is left there that the marker could end: as if it were written
    INVALID_PRODUCER_EPOCH
    none, since there is no response        sent again after a pause; after a time-out the partition is isolated
    any other                               sent again after a pause; the partition is isolated

A partition has at most one request in flight: a marker that came twice, and late, would end the transaction after it.
Several requests are in flight to one broker; one that is not answered soon leaves its place to another. An isolated
partition has requests of its own, so it delays no other. A partition goes to each later leader at once. Retries end
only when the topic is deleted, with or without a marker in flight, or when the coordinator's leadership ends: its
successor loads the markers to send from `__transaction_state`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Final

from kavka.core.partition import NO_LEADER
from kavka.core.transaction_markers.broker_queue import MAX_MARKERS, BrokerQueue
from kavka.core.transaction_markers.events import (
    CheckDeletion,
    ClusterMetadata,
    Coordinator,
    CoordinatorResigned,
    DeletionChecked,
    Disconnect,
    Effect,
    Event,
    LogDeleted,
    LogRefused,
    MarkerCodes,
    MarkersNeeded,
    MetadataChanged,
    RequestFailed,
    ResponseReceived,
    SendRequest,
    TransactionMarkers,
)
from kavka.core.transaction_markers.partition_markers import (
    DeletionCheck,
    Marker,
    MarkerRequest,
    PartitionMarkers,
    report,
)
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition

_LATE_MS: Final = 500
_NOT_ANSWERED: Final = ErrorCode.NETWORK_EXCEPTION
# Written, or nothing is left there that this marker could end.
_WRITTEN: Final = (
    ErrorCode.NONE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


class TransactionMarkerMachine:
    """All markers that a broker's coordinators have to send."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        """Start without markers."""
        self._metadata = metadata
        self._partitions: dict[TopicPartition, PartitionMarkers] = {}
        self._queues: dict[BrokerId, BrokerQueue] = {}
        self._requests: dict[int, MarkerRequest] = {}  # in flight
        self._late: deque[tuple[int, MarkerRequest]] = deque()  # by the time when they are late
        # (time, its number, partition). One that is no longer its partition's timer is void.
        self._timers: list[tuple[int, int, PartitionMarkers]] = []
        self._checks: dict[int, PartitionMarkers] = {}
        self._last_number = 0
        self._now_ms = 0
        self._effects: list[Effect] = []

    def __len__(self) -> int:
        """Return how many partitions wait for a marker."""
        return len(self._partitions)

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Decide about one event; the effects are to be performed in their order."""
        return self.handle_all((event,), now_ms)

    def handle_all(self, several: Iterable[Event], now_ms: int) -> list[Effect]:
        """Decide about several events at once: what they make ready goes into the same requests."""
        self._now_ms = now_ms
        for event in several:
            self._handle(event)
        return self._take_effects()

    def may_write_at_once(self, broker_id: BrokerId, several: Sequence[MarkersNeeded]) -> bool:
        """Return whether markers may be written without an event, which most writes save, to partitions of a broker.

        It leads all of them, and none waits for another marker. What is not written then is given to `submit`.
        """
        if broker_id not in self._metadata.brokers:
            return False
        count = 0
        for event in several:
            for topic_partition in event.transaction.partitions:
                known = self._metadata.partition(topic_partition)
                if known is None or known.leader != broker_id:
                    return False
                if topic_partition in self._partitions:
                    return False
            count += len(event.transaction.partitions)
        return count <= MAX_MARKERS

    def submit(
        self, broker_id: BrokerId, several: Sequence[MarkersNeeded], now_ms: int
    ) -> SendRequest:
        """Return a request in flight with markers that are being written, where `may_write_at_once` has allowed it."""
        self._now_ms = now_ms
        partitions: dict[TopicPartition, PartitionMarkers] = {}
        for event in several:
            for topic_partition in event.transaction.partitions:
                partition = partitions.get(topic_partition)
                if partition is None:
                    partition = PartitionMarkers(topic_partition)
                    partition.leader = broker_id
                    partitions[topic_partition] = partition
                partition.markers[event.transaction.producer_id] = Marker(*event)
        self._partitions |= partitions
        queue = self._queue_of(broker_id)
        request = queue.begin(self._next_number(), list(partitions.values()))
        return self._begin_request(request)

    def _handle(self, event: Event) -> None:
        match event:
            case MarkersNeeded():
                self._add(event)
            case ResponseReceived(number, codes):
                self._end_request(self._requests.pop(number), codes)
            case CoordinatorResigned(coordinator):
                self._withdraw(coordinator)
            case MetadataChanged():
                self._follow_metadata()
            case RequestFailed(number, has_timed_out):
                self._fail_request(self._requests.pop(number), has_timed_out)
            case DeletionChecked():
                self._end_check(event)

    def tick(self, now_ms: int) -> list[Effect]:
        """Handle what is due."""
        self._now_ms = now_ms
        while self._late and self._late[0][0] <= now_ms:
            _due_ms, request = self._late.popleft()
            if request.number in self._requests:
                self._queues[request.broker_id].add_late(request)
        while self._timers and self._timers[0][0] <= now_ms:
            _due_ms, number, partition = heappop(self._timers)
            if partition.timer == number:
                partition.timer = None
                self._timer_ended(partition)
        return self._take_effects()

    def deadline_ms(self) -> int | None:
        """Return when `tick` next has something to do; None is never."""
        while self._late and self._late[0][1].number not in self._requests:
            self._late.popleft()
        while self._timers and self._timers[0][2].timer != self._timers[0][1]:
            heappop(self._timers)
        due_ms = self._late[0][0] if self._late else None
        if self._timers and (due_ms is None or self._timers[0][0] < due_ms):
            due_ms = self._timers[0][0]
        return due_ms

    def markers_of(self, number: int) -> list[TransactionMarkers]:
        """Return the markers of a request, one entry for each transaction; empty when all are withdrawn.

        The caller must send them at once: a marker that is withdrawn after this, and sent nevertheless, would end the
        transaction after it.
        """
        return self._requests[number].markers()

    # Events

    def _add(self, event: MarkersNeeded) -> None:
        for topic_partition in event.transaction.partitions:
            partition = self._partitions.get(topic_partition)
            is_new = partition is None
            if partition is None:
                partition = self._partitions[topic_partition] = PartitionMarkers(topic_partition)
            partition.markers[event.transaction.producer_id] = Marker(*event)
            if is_new:
                self._assign(partition)

    def _withdraw(self, coordinator: Coordinator) -> None:
        for partition in list(self._partitions.values()):
            for producer_id, marker in list(partition.markers.items()):
                if marker.coordinator is coordinator:
                    del partition.markers[producer_id]
            self._drop_if_done(partition)

    def _follow_metadata(self) -> None:
        """Reassign partitions to new leaders instead of waiting for former ones."""
        for partition in list(self._partitions.values()):
            known = self._metadata.partition(partition.topic_partition)
            if known is None:
                self._check_again(partition)
            elif known.leader not in (NO_LEADER, partition.leader):
                self._unassign(partition)
                partition.trust()
                self._assign(partition)
        for broker_id, queue in list(self._queues.items()):
            if broker_id not in self._metadata.brokers:
                self._effects.append(Disconnect(broker_id))
                if queue.is_idle:
                    del self._queues[broker_id]

    def _fail_request(self, request: MarkerRequest, has_timed_out: bool) -> None:
        if has_timed_out:
            # One of them blocks the others; sending each alone shows which one.
            for partition, _markers in request.partitions():
                partition.is_isolated = True
        self._end_request(request, {})

    def _end_request(self, request: MarkerRequest, codes: MarkerCodes) -> None:
        """Report written markers; send others again, except those that are in flight in another request by now."""
        self._queues[request.broker_id].release(request)
        written: list[tuple[TopicPartition, Marker]] = []
        for partition, markers in request.partitions():
            partition.request = None
            errors: list[ErrorCode] = []
            for producer_id, marker in markers.items():
                if partition.markers.get(producer_id) is not marker:
                    continue  # its coordinator has resigned
                code = codes.get((producer_id, partition.topic_partition), _NOT_ANSWERED)
                if code in _WRITTEN:
                    written.append((partition.topic_partition, marker))
                    del partition.markers[producer_id]
                if code is not ErrorCode.NONE:
                    errors.append(code)
                    self._effects.append(LogRefused(partition.topic_partition, producer_id, code))
            self._continue(partition, errors)
        self._effects += report(written)

    def _continue(self, partition: PartitionMarkers, errors: list[ErrorCode]) -> None:
        """Continue with a partition after its request has ended."""
        if any(code not in (*_WRITTEN, _NOT_ANSWERED) for code in errors):
            partition.is_isolated = True
        elif not errors:
            partition.trust()
        if self._drop_if_done(partition):
            return
        if all(code in _WRITTEN for code in errors):
            self._assign(partition)  # more came meanwhile
        else:
            self._pause(partition)

    # States of a partition

    def _assign(self, partition: PartitionMarkers) -> None:
        """Make a partition ready for its leader; without one it pauses."""
        known = self._metadata.partition(partition.topic_partition)
        leader = NO_LEADER if known is None else known.leader
        if leader not in self._metadata.brokers:
            partition.leader = NO_LEADER
            self._pause(partition)
            if known is None:
                self._check_deletion(partition)
            return
        partition.leader = leader
        self._queue_of(leader).add(partition)

    def _queue_of(self, leader: BrokerId) -> BrokerQueue:
        queue = self._queues.get(leader)
        if queue is None:
            queue = self._queues[leader] = BrokerQueue(leader)
        return queue

    def _unassign(self, partition: PartitionMarkers) -> None:
        """Take a partition back from where it is; a response that is still to come is not for it any more."""
        queue = self._queues.get(partition.leader)
        if queue is not None:
            queue.remove(partition.topic_partition)
        partition.request = None
        partition.is_pausing, partition.timer = False, None

    def _pause(self, partition: PartitionMarkers) -> None:
        partition.is_pausing = True
        self._set_timer(partition, partition.next_pause_ms())

    def _set_timer(self, partition: PartitionMarkers, delay_ms: int) -> None:
        partition.timer = self._next_number()
        heappush(self._timers, (self._now_ms + delay_ms, partition.timer, partition))

    def _timer_ended(self, partition: PartitionMarkers) -> None:
        if partition.is_pausing:
            partition.is_pausing = False
            self._assign(partition)
        elif self._metadata.partition(partition.topic_partition) is None:
            self._check_deletion(partition)

    def _drop_if_done(self, partition: PartitionMarkers) -> bool:
        if partition.markers:
            return False
        self._unassign(partition)
        del self._partitions[partition.topic_partition]
        return True

    # Deletion

    def _check_again(self, partition: PartitionMarkers) -> None:
        """Check whether a partition that is not known any more is deleted, while it is ready or in flight.

        Its request is answered when all its partitions have their markers, and another of them may hang. The registry
        has the topic until all replicas are deleted. A partition that is not deleted waits for its request.
        """
        if not partition.is_pausing and partition.timer is None:
            partition.check_pause_ms = 0
            self._check_deletion(partition)

    def _check_deletion(self, partition: PartitionMarkers) -> None:
        """Read the topics from the registry: this broker's metadata may be behind."""
        if partition.check is None:
            number = self._next_number()
            partition.check = DeletionCheck(number, dict(partition.markers))
            self._checks[number] = partition
            self._effects.append(CheckDeletion(number, partition.topic_partition))

    def _end_check(self, event: DeletionChecked) -> None:
        partition = self._checks.pop(event.number)
        check, partition.check = partition.check, None
        if check is None or self._partitions.get(partition.topic_partition) is not partition:
            return
        if self._metadata.partition(partition.topic_partition) is not None:
            return
        if event.is_deleted:
            self._drop_markers(partition, check.markers)
        if partition.markers and not partition.is_pausing and partition.timer is None:
            self._set_timer(partition, partition.next_check_pause_ms())

    def _drop_markers(self, partition: PartitionMarkers, markers: dict[int, Marker]) -> None:
        """Need the markers no longer, which were for a partition that is deleted."""
        needless: list[tuple[TopicPartition, Marker]] = []
        for producer_id, marker in markers.items():
            if partition.markers.get(producer_id) is marker:
                del partition.markers[producer_id]
                needless.append((partition.topic_partition, marker))
        if needless:
            self._effects.append(LogDeleted(partition.topic_partition))
            self._effects += report(needless)
        self._drop_if_done(partition)

    # Effects

    def _take_effects(self) -> list[Effect]:
        """Return the effects, with a request for what is ready as far as there are places."""
        effects, self._effects = self._effects, []
        for queue in self._queues.values():
            while (request := queue.take(self._last_number + 1)) is not None:
                self._last_number = request.number
                effects.append(self._begin_request(request))
        return effects

    def _begin_request(self, request: MarkerRequest) -> SendRequest:
        self._requests[request.number] = request
        self._late.append((self._now_ms + _LATE_MS, request))
        return SendRequest(request.number, request.broker_id)

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number
