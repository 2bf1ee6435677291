"""Transaction markers from coordinators to the leaders of a transaction's partitions.

    SendMarkers -> waiting, by partition -> WriteTxnMarkers to the partition's leader -> MarkersWritten
                        ^                                   |
                        '------ after a pause, unlimited ---'   not written: no leader, too few replicas, no answer

A partition has at most one request in flight: a marker that came twice, and late, would end the transaction after it.
Several requests go to one broker at a time, each on a connection of its own because answers come in order; one that is
not answered soon leaves its place to another. A marker that could not be written is sent in a request of its
own from then on, so it delays no other partition; it is written as soon as possible, at any later leader. Retries end
only when the topic is deleted, with or without a marker in flight, or when the coordinator's leadership ends: its
successor loads the markers to send from `__transaction_state`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from kavka.broker.context import BrokerContext
from kavka.broker.metadata.cache import NO_LEADER
from kavka.core.transaction.events import MarkersWritten, SendMarkers
from kavka.core.znodes import ZnodeError
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.net.peer import Peer
from kavka.registry.interface import RegistryRefused
from kavka.registry.znode_decoding import decode_or_none
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 20
_MAX_PAUSE_MS: Final = 500
_MAX_CONNECTIONS: Final = 4
"""Requests to one broker for partitions that take their markers, and as many for those that did not."""
_LATE_MS: Final = 500
_MAX_LATE: Final = 32
"""Requests to one broker that are late and do not count as lanes."""
_MAX_MARKERS: Final = 500
"""Of one request, which has more only when a single partition waits for more."""
_CONNECT_MS: Final = 10_000

_Outcome = dict[tuple[int, TopicPartition], ErrorCode]
"""By producer id and partition."""

_NOT_ANSWERED: Final = ErrorCode.NETWORK_EXCEPTION
# Written, or nothing is left there that this marker could end.
_WRITTEN: Final = (
    ErrorCode.NONE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


class Sender(Protocol):
    """The coordinator of some transactional ids, as long as it leads their partition."""

    @property
    def coordinator_epoch(self) -> int:
        """Return the leader epoch by which it decides."""
        ...

    def post(self, event: MarkersWritten) -> None:
        """Note that markers are written."""
        ...


class _Marker(NamedTuple):
    """A marker that a partition does not have yet."""

    sender: Sender
    effect: SendMarkers


class _PartitionMarkers:
    """A partition that has yet to get markers; in one of the states ready, in flight, pausing."""

    __slots__ = (
        "in_flight",
        "is_suspect",
        "is_watched",
        "leader",
        "markers",
        "pause_ms",
        "timer",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.markers: dict[int, _Marker] = {}  # by producer id, which has one transaction at a time
        self.leader = NO_LEADER  # the broker that it is assigned to
        self.in_flight: _Request | None = None
        self.timer: asyncio.TimerHandle | None = None  # while pausing
        self.pause_ms = 0
        self.is_suspect = False
        self.is_watched = False  # whether its deletion is looked for while it is in flight


class _Request:
    """A WriteTxnMarkers with its markers and partitions."""

    __slots__ = ("brings", "is_late", "is_suspect")

    def __init__(self, some: list[_PartitionMarkers], *, is_suspect: bool) -> None:
        self.is_suspect = is_suspect
        self.is_late = False
        self.brings = [(waiting, dict(waiting.markers)) for waiting in some]
        for waiting in some:
            waiting.in_flight = self

    def _wanted(self) -> Iterator[tuple[TopicPartition, _Marker]]:
        """Iterate over the markers that were not withdrawn since the request was built."""
        for waiting, markers in self.brings:
            if waiting.in_flight is self:
                for producer_id, marker in markers.items():
                    if waiting.markers.get(producer_id) is marker:
                        yield waiting.topic_partition, marker

    def message(self) -> WriteTxnMarkersRequest | None:
        """Return the request, one entry for each transaction; None when all its markers are withdrawn.

        The caller must send it at once: a marker that is withdrawn after this, and sent nevertheless,
        would end the transaction after it.
        """
        entries: dict[int, WriteTxnMarkersRequestMarker] = {}
        topics: dict[tuple[int, str], WriteTxnMarkersRequestTopic] = {}
        for topic_partition, (sender, effect) in self._wanted():
            producer_id = effect.producer_id
            entry = entries.get(producer_id)
            if entry is None:
                entry = entries[producer_id] = WriteTxnMarkersRequestMarker(
                    producer_id=producer_id,
                    producer_epoch=effect.producer_epoch,
                    transaction_result=effect.committed,
                    coordinator_epoch=sender.coordinator_epoch,
                    transaction_version=effect.transaction_version,
                )
            topic = topics.get((producer_id, topic_partition.topic))
            if topic is None:
                topic = WriteTxnMarkersRequestTopic(name=topic_partition.topic)
                topics[producer_id, topic_partition.topic] = topic
                entry.topics.append(topic)
            topic.partition_indexes.append(topic_partition.partition)
        if not entries:
            return None
        return WriteTxnMarkersRequest(markers=list(entries.values()))


class TransactionMarkerManager:
    """All markers that this broker's coordinators have to send."""

    def __init__(
        self,
        context: BrokerContext,
        write_here: Callable[[WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]],
    ) -> None:
        """Send nothing yet; `write_here` writes to the partitions that this broker leads."""
        self._context = context
        self._write_here = write_here
        self._waiting: dict[TopicPartition, _PartitionMarkers] = {}
        self._destinations: dict[BrokerId, _BrokerQueue] = {}
        # A dict, not a set: the order in which they are cancelled can be seen.
        self._tasks: dict[asyncio.Task[None], None] = {}

    def __len__(self) -> int:
        """Return how many partitions wait for a marker."""
        return len(self._waiting)

    # -- from coordinators

    def send(self, sender: Sender, effect: SendMarkers) -> None:
        """Send markers to partitions; `sender` gets an event for each when it is written."""
        for topic_partition in effect.partitions:
            waiting = self._waiting.get(topic_partition)
            if waiting is None:
                waiting = self._waiting[topic_partition] = _PartitionMarkers(topic_partition)
            waiting.markers[effect.producer_id] = _Marker(sender, effect)
            if waiting.in_flight is None and waiting.timer is None:
                self._assign(waiting)
        self._send_ready()

    def forget(self, sender: Sender) -> None:
        """Send nothing more for a coordinator that leads no longer."""
        for waiting in list(self._waiting.values()):
            for producer_id, marker in list(waiting.markers.items()):
                if marker.sender is sender:
                    del waiting.markers[producer_id]
            self._drop_if_done(waiting)

    def metadata_changed(self) -> None:
        """Reassign markers to new leaders instead of waiting for former ones."""
        if not self._waiting:
            return
        for waiting in list(self._waiting.values()):
            partition_metadata = self._context.metadata.partition(waiting.topic_partition)
            if partition_metadata is not None and partition_metadata.leader not in (
                NO_LEADER,
                waiting.leader,
            ):
                self._unassign(waiting)
                waiting.is_suspect, waiting.pause_ms = False, 0
                self._assign(waiting)
            elif (
                partition_metadata is None
                and waiting.in_flight is not None
                and not waiting.is_watched
            ):
                waiting.is_watched = True
                self._spawn(self._watch_deletion(waiting))
        live = self._context.metadata.brokers
        for broker_id, destination in list(self._destinations.items()):
            if broker_id not in live:
                destination.abort()
        self._send_ready()

    async def stop(self) -> None:
        """Send nothing any more."""
        for waiting in self._waiting.values():
            if waiting.timer is not None:
                waiting.timer.cancel()
        self._waiting.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for destination in self._destinations.values():
            destination.abort()
        self._destinations.clear()

    # -- states of a partition

    def _assign(self, waiting: _PartitionMarkers) -> None:
        """Make a partition ready for its leader; without one it pauses."""
        partition_metadata = self._context.metadata.partition(waiting.topic_partition)
        leader = NO_LEADER if partition_metadata is None else partition_metadata.leader
        if leader not in self._context.metadata.brokers:
            waiting.leader = NO_LEADER
            self._pause(waiting)
            if partition_metadata is None:
                self._spawn(self._drop_if_deleted(waiting))
            return
        waiting.leader = leader
        destination = self._destinations.get(leader)
        if destination is None:
            destination = self._destinations[leader] = _BrokerQueue(self._context, leader)
        destination.ready(is_suspect=waiting.is_suspect)[waiting.topic_partition] = waiting

    def _unassign(self, waiting: _PartitionMarkers) -> None:
        """Take a partition back from wherever it is; an answer that is still to come is not for it any more."""
        destination = self._destinations.get(waiting.leader)
        if destination is not None:
            for is_suspect in (False, True):
                destination.ready(is_suspect=is_suspect).pop(waiting.topic_partition, None)
        if waiting.timer is not None:
            waiting.timer.cancel()
            waiting.timer = None
        waiting.in_flight = None

    def _pause(self, waiting: _PartitionMarkers) -> None:
        waiting.pause_ms = min(max(2 * waiting.pause_ms, _FIRST_PAUSE_MS), _MAX_PAUSE_MS)
        loop = asyncio.get_running_loop()
        waiting.timer = loop.call_later(waiting.pause_ms / 1000, self._paused, waiting)

    def _paused(self, waiting: _PartitionMarkers) -> None:
        waiting.timer = None
        self._assign(waiting)
        self._send_ready()

    def _drop_if_done(self, waiting: _PartitionMarkers) -> bool:
        if waiting.markers:
            return False
        self._unassign(waiting)
        if self._waiting.get(waiting.topic_partition) is waiting:
            del self._waiting[waiting.topic_partition]
        return True

    async def _watch_deletion(self, waiting: _PartitionMarkers) -> None:
        """Look, while a partition is in flight and not known any more, whether it is deleted.

        Its request is answered when all its partitions have their markers, and another of them may hang. The registry
        has the topic until all replicas are deleted. A partition that is not deleted waits for that request.
        """
        request, pause_ms = waiting.in_flight, _FIRST_PAUSE_MS
        try:
            while waiting.in_flight is request:
                if self._context.metadata.partition(waiting.topic_partition) is not None:
                    return
                await self._drop_if_deleted(waiting)
                await asyncio.sleep(pause_ms / 1000)
                pause_ms = min(2 * pause_ms, _MAX_PAUSE_MS)
        finally:
            waiting.is_watched = False

    async def _drop_if_deleted(self, waiting: _PartitionMarkers) -> None:
        """Need no marker in a partition that is deleted; the registry knows, this broker's metadata may be behind."""
        try:
            exists = await self._is_registered(waiting.topic_partition)
        except (ConnectionError, RegistryRefused, ValueError, KeyError) as error:
            log.info("deletion not known partition=%s reason=%s", waiting.topic_partition, error)
            return
        is_known = self._context.metadata.partition(waiting.topic_partition) is not None
        if not exists and not is_known and self._waiting.get(waiting.topic_partition) is waiting:
            log.info("marker not needed partition=%s reason=deleted", waiting.topic_partition)
            markers, waiting.markers = waiting.markers, {}
            self._drop_if_done(waiting)
            _report_written((waiting.topic_partition, marker) for marker in markers.values())

    async def _is_registered(self, topic_partition: TopicPartition) -> bool:
        """Return whether the registry has a partition; a topic that was made again may have fewer than before."""
        try:
            data, _stat = await self._context.registry.get(znodes.topic_path(topic_partition.topic))
        except RegistryRefused as refused:
            if refused.error is not ZnodeError.NO_NODE:
                raise
            return False
        node = decode_or_none(
            data, znodes.TopicNode.decode, znodes.topic_path(topic_partition.topic)
        )
        return node is None or topic_partition.partition in node.assignment

    # -- sending

    def _send_ready(self) -> None:
        """Send what is ready, as far as there are lanes."""
        for destination in self._destinations.values():
            while (taken := destination.take()) is not None:
                connection, request = taken
                self._spawn(self._deliver(destination, connection, request))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _deliver(
        self, destination: _BrokerQueue, connection: _Connection, request: _Request
    ) -> None:
        outcome: _Outcome = {}
        timer = asyncio.get_running_loop().call_later(
            _LATE_MS / 1000, self._late, destination, request
        )
        try:
            outcome = await self._send_request(destination, connection, request)
        except TimeoutError as error:
            # One of them blocks the others; sending each alone shows which one.
            log.info("markers not written broker=%d reason=%s", destination.broker_id, error)
            for waiting, _markers in request.brings:
                waiting.is_suspect = waiting.is_suspect or waiting.in_flight is request
        except (OSError, KafkaError, CorruptFrame) as error:
            log.info("markers not written broker=%d reason=%s", destination.broker_id, error)
        except Exception:
            # A bug must not end the retries: the transactions would hang without limit.
            log.exception("markers not written broker=%d", destination.broker_id)
        finally:
            timer.cancel()
            destination.release(connection, request)
        self._apply_outcome(request, outcome)
        self._send_ready()

    async def _send_request(
        self, destination: _BrokerQueue, connection: _Connection, request: _Request
    ) -> _Outcome:
        """Send what is still wanted when there is a connection, and return what became of it."""
        if destination.broker_id == self._context.broker_id:
            message = request.message()
            return {} if message is None else _codes(await self._write_here(message))
        peer = await connection.connected()
        message = request.message()
        if message is None:
            return {}
        return _codes(await peer.post(message, timeout_ms=connection.timeout_ms))

    def _late(self, destination: _BrokerQueue, request: _Request) -> None:
        """Let others go before a request that is not answered."""
        destination.add_late(request)
        self._send_ready()

    def _apply_outcome(self, request: _Request, outcome: _Outcome) -> None:
        """Report written markers; send others again, except those that are in flight in another request by now."""
        written: list[tuple[TopicPartition, _Marker]] = []
        for waiting, markers in request.brings:
            if waiting.in_flight is not request:
                continue
            waiting.in_flight = None
            codes: list[ErrorCode] = []
            for producer_id, marker in markers.items():
                if waiting.markers.get(producer_id) is not marker:
                    continue  # its coordinator has resigned
                code = outcome.get((producer_id, waiting.topic_partition), _NOT_ANSWERED)
                if code in _WRITTEN:
                    written.append((waiting.topic_partition, marker))
                    del waiting.markers[producer_id]
                if code is not ErrorCode.NONE:
                    codes.append(code)
                    what = "marker refused partition=%s producer=%d error=%s"
                    log.info(what, waiting.topic_partition, producer_id, code.name)
            self._answered(waiting, codes)
        _report_written(written)

    def _answered(self, waiting: _PartitionMarkers, codes: list[ErrorCode]) -> None:
        """Continue with a partition after an answer, or after it was clear that there will be none."""
        if any(code not in (*_WRITTEN, _NOT_ANSWERED) for code in codes):
            waiting.is_suspect = True
        elif not codes:
            waiting.is_suspect, waiting.pause_ms = False, 0
        if self._drop_if_done(waiting):
            return
        if all(code in _WRITTEN for code in codes):
            self._assign(waiting)  # more came meanwhile
        else:
            self._pause(waiting)


def _report_written(written: Iterable[tuple[TopicPartition, _Marker]]) -> None:
    """Report partitions with their marker to the coordinators, once for each transaction."""
    done: dict[int, tuple[_Marker, list[TopicPartition]]] = {}
    for topic_partition, marker in written:
        done.setdefault(marker.effect.producer_id, (marker, []))[1].append(topic_partition)
    for (sender, effect), partitions in done.values():
        event = MarkersWritten(
            effect.transactional_id,
            effect.producer_id,
            effect.producer_epoch,
            tuple(sorted(partitions)),
        )
        try:
            sender.post(event)
        except Exception:
            # A bug in one coordinator must not keep others from what is theirs.
            log.exception("written markers not reported id=%s", effect.transactional_id)


class _Connection:
    """A connection to a broker, with one request at a time."""

    def __init__(self, context: BrokerContext, broker_id: BrokerId) -> None:
        self._context = context
        self._broker_id = broker_id
        self._peer: Peer | None = None

    @property
    def timeout_ms(self) -> int:
        """Return the request timeout."""
        return 2 * self._context.config.integer("request.timeout.ms")

    async def connected(self) -> Peer:
        """Return an open connection, a new one if need be. Raise OSError, KafkaError, CorruptFrame."""
        context = self._context
        if self._peer is None or self._peer.is_closed:
            live = context.metadata.brokers.get(self._broker_id)
            endpoint = None if live is None else live.endpoint(context.config.inter_broker_listener)
            if endpoint is None:
                raise ConnectionError(f"broker {self._broker_id} is not known to be alive")
            self._peer = await Peer.connect(
                context.environment.network,
                endpoint.host,
                endpoint.port,
                client_id=f"{context.broker_id}-markers",
                timeout_ms=min(_CONNECT_MS, self.timeout_ms),
            )
        return self._peer

    def abort(self) -> None:
        """Close the connection at once; a waiting request raises ConnectionError."""
        if self._peer is not None:
            self._peer.abort()
            self._peer = None


class _BrokerQueue:
    """The queue of a broker: markers to send, and its connections."""

    def __init__(self, context: BrokerContext, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self._context = context
        # Each twice: for partitions that take their markers, and for suspects.
        self._ready: tuple[
            dict[TopicPartition, _PartitionMarkers], dict[TopicPartition, _PartitionMarkers]
        ] = (
            {},
            {},
        )
        self._in_time = [0, 0]  # requests that are not late
        self._late = 0
        self._connections: dict[_Connection, None] = {}
        self._free: list[_Connection] = []

    def ready(self, *, is_suspect: bool) -> dict[TopicPartition, _PartitionMarkers]:
        """Return the partitions that wait for a lane."""
        return self._ready[is_suspect]

    def take(self) -> tuple[_Connection, _Request] | None:
        """Take the next request and a lane for it: what is ready in one, up to a bound, each suspect in its own."""
        for is_suspect in (False, True):
            ready = self._ready[is_suspect]
            if ready and self._in_time[is_suspect] < _MAX_CONNECTIONS:
                self._in_time[is_suspect] += 1
                some = _take_one(ready) if is_suspect else _take_some(ready)
                return self._connection(), _Request(some, is_suspect=is_suspect)
        return None

    def _connection(self) -> _Connection:
        if self._free:
            return self._free.pop()
        connection = _Connection(self._context, self.broker_id)
        self._connections[connection] = None
        return connection

    def add_late(self, request: _Request) -> None:
        """Count a request no longer among those that others wait for."""
        if self._late < _MAX_LATE:
            self._late += 1
            self._in_time[request.is_suspect] -= 1
            request.is_late = True

    def release(self, connection: _Connection, request: _Request) -> None:
        """Let another request use a lane."""
        if request.is_late:
            self._late -= 1
        else:
            self._in_time[request.is_suspect] -= 1
        if len(self._free) < 2 * _MAX_CONNECTIONS:
            self._free.append(connection)
        else:
            connection.abort()
            del self._connections[connection]

    def abort(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.abort()


def _take_one(ready: dict[TopicPartition, _PartitionMarkers]) -> list[_PartitionMarkers]:
    return [ready.pop(next(iter(ready)))]


def _take_some(ready: dict[TopicPartition, _PartitionMarkers]) -> list[_PartitionMarkers]:
    """Take the partitions that wait longest, as many as one request has room for, but at least one."""
    some = _take_one(ready)
    count = len(some[0].markers)
    while ready:
        count += len(next(iter(ready.values())).markers)
        if count > _MAX_MARKERS:
            break
        some += _take_one(ready)
    return some


def _codes(response: WriteTxnMarkersResponse) -> _Outcome:
    return {
        (marker.producer_id, TopicPartition(topic.name, row.partition_index)): ErrorCode.of(
            row.error_code
        )
        for marker in response.markers
        for topic in marker.topics
        for row in topic.partitions
    }
