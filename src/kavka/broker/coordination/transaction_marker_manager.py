"""Transaction markers from coordinators to the leaders of a transaction's partitions.

The shell of `kavka.core.transaction_markers`, which decides: it has the connections, the registry's responses and one
timer. A request fails when it is not answered in twice `request.timeout.ms`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from kavka.broker.context import BrokerContext
from kavka.broker.coordination.broker_connection import ConnectionPool
from kavka.broker.coordination.machine_shell import EffectTasks, MachineTimer
from kavka.broker.coordination.marker_messages import codes_of, request_of
from kavka.broker.requests.pace import SLICE_MS
from kavka.core.transaction.events import MarkersWritten, SendMarkers
from kavka.core.transaction_markers import events
from kavka.core.transaction_markers.events import Coordinator, Effect, Event
from kavka.core.transaction_markers.machine import TransactionMarkerMachine
from kavka.core.znodes import ZnodeError
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.registry.interface import RegistryRefused, decode_or_none
from kavka.wire.codec import CorruptFrame
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)

_MAX_FREE_CONNECTIONS: Final = 8

_Codes = events.MarkerCodes | Coroutine[Any, Any, events.MarkerCodes]
"""Error codes of markers that were written, or a coroutine that returns them."""
WriteHere = Callable[[list[events.TransactionMarkers]], _Codes]
"""Writes markers to the partitions that this broker leads: at once, or a coroutine continues where some have to wait.
"""


class TransactionMarkerManager:
    """All markers that this broker's coordinators have to send."""

    def __init__(
        self,
        context: BrokerContext,
        write_here: WriteHere,
    ) -> None:
        """Send nothing yet; `write_here` writes to the partitions that this broker leads."""
        self._context = context
        self._write_here = write_here
        self._machine = TransactionMarkerMachine(context.metadata)
        self._pools: dict[BrokerId, ConnectionPool] = {}
        self._tasks = EffectTasks()
        self._needed: list[events.MarkersNeeded] = []
        """Those that the machine does not know yet."""
        self._for_here: deque[events.SendRequest] = deque()
        self._continuing: asyncio.Handle | None = None
        """The call of `_continue`."""
        self._timer = MachineTimer(context.clock, self._tick)

    def __len__(self) -> int:
        """Return how many partitions wait for a marker."""
        waiting = len(self._machine)
        return waiting + sum(len(one.transaction.partitions) for one in self._needed)

    # -- from coordinators

    def send(self, coordinator: Coordinator, effect: SendMarkers) -> None:
        """Send markers to partitions; `coordinator` gets an event for each when it is written.

        They are sent in the next iteration of the loop: those of all transactions that end in this one go together, and
        their producers get their responses before.
        """
        self._needed.append(events.MarkersNeeded(coordinator, effect))
        self._continue_soon()

    def forget(self, coordinator: Coordinator) -> None:
        """Send nothing more for a coordinator that leads no longer."""
        self._needed = [one for one in self._needed if one.coordinator is not coordinator]
        self._handle(events.CoordinatorResigned(coordinator))

    def metadata_changed(self) -> None:
        """Reassign markers to new leaders instead of waiting for former ones."""
        self._handle(events.MetadataChanged())

    async def stop(self) -> None:
        """Send nothing any more."""
        self._machine = TransactionMarkerMachine(self._context.metadata)
        self._timer.cancel()
        self._needed.clear()
        self._for_here.clear()
        if self._continuing is not None:
            self._continuing.cancel()
            self._continuing = None
        await self._tasks.stop()
        for pool in self._pools.values():
            pool.abort()
        self._pools.clear()

    # -- the machine

    def _handle(self, event: Event) -> None:
        self._perform(self._machine.handle(event, self._context.clock.tick_ms()))

    def _perform(self, effects: list[Effect]) -> None:
        written: dict[Coordinator, list[MarkersWritten]] = {}
        for effect in effects:
            match effect:
                case events.SendRequest(_number, broker_id):
                    if broker_id == self._context.broker_id:
                        self._for_here.append(effect)
                        self._continue_soon()
                    else:
                        self._deliver_later(effect, self._send_request(effect))
                case events.ReportWritten(coordinator, event):
                    written.setdefault(coordinator, []).append(event)
                case events.CheckDeletion():
                    self._tasks.spawn(self._check_deletion(effect))
                case events.Disconnect(broker_id):
                    if broker_id in self._pools:
                        self._pools[broker_id].abort()
                case events.LogRefused(topic_partition, producer_id, error):
                    what = "marker refused partition=%s producer=%d error=%s"
                    log.info(what, topic_partition, producer_id, error.name)
                case events.LogDeleted(topic_partition):
                    log.info("marker not needed partition=%s reason=deleted", topic_partition)
        self._timer.set(self._machine.deadline_ms())
        for coordinator, reports in written.items():
            _report(coordinator, reports)

    def _tick(self) -> None:
        self._perform(self._machine.tick(self._context.clock.tick_ms()))

    def _continue_soon(self) -> None:
        if self._continuing is None:
            self._continuing = asyncio.get_running_loop().call_soon(self._continue)

    def _continue(self) -> None:
        """Report to the machine what is needed, and write to this broker's own partitions for a slice of time.

        What is written makes room for further requests, which are written, too: a producer that goes on at once should
        find its transaction completed.
        """
        tick_ms = self._context.clock.tick_ms
        end_ms = tick_ms() + SLICE_MS
        try:
            needed, self._needed = self._needed, []
            if needed and self._machine.may_write_at_once(self._context.broker_id, needed):
                self._write_at_once(needed)
            else:
                self._perform(self._machine.handle_all(needed, tick_ms()))
            while self._for_here and tick_ms() < end_ms:
                self._write(self._for_here.popleft())
        finally:
            self._continuing = None
            if self._for_here or self._needed:
                self._continue_soon()

    # -- this broker's own partitions

    def _write_at_once(self, needed: list[events.MarkersNeeded]) -> None:
        """Write markers of transactions that need none elsewhere; what is not settled at once is a request."""
        codes: _Codes | None = None
        try:
            codes = self._write_here(
                [
                    events.TransactionMarkers(
                        coordinator.coordinator_epoch, transaction, list(transaction.partitions)
                    )
                    for coordinator, transaction in needed
                ]
            )
        except Exception:
            # As in `_write`.
            log.exception("markers not written broker=%d", self._context.broker_id)
        if isinstance(codes, Mapping) and all(code is ErrorCode.NONE for code in codes.values()):
            for coordinator, reports in _reports(needed).items():
                _report(coordinator, reports)
            return
        broker_id, tick_ms = self._context.broker_id, self._context.clock.tick_ms()
        self._settle(self._machine.submit(broker_id, needed, tick_ms), codes)
        self._timer.set(self._machine.deadline_ms())

    def _write(self, request: events.SendRequest) -> None:
        codes: _Codes | None = None
        try:
            markers = self._machine.markers_of(request.number)
            codes = self._write_here(markers) if markers else {}
        except Exception:
            # A bug must not end the retries: the transactions would hang without limit.
            log.exception("markers not written broker=%d", request.broker_id)
        self._settle(request, codes)

    def _settle(self, request: events.SendRequest, codes: _Codes | None) -> None:
        """Report what became of the markers of a request, None for a failure; or wait until that is known."""
        if isinstance(codes, Coroutine):
            self._deliver_later(request, codes)
        elif codes is None:
            self._handle(events.RequestFailed(request.number, has_timed_out=False))
        else:
            self._handle(events.ResponseReceived(request.number, codes))

    # -- requests

    def _deliver_later(
        self, request: events.SendRequest, work: Coroutine[Any, Any, events.MarkerCodes]
    ) -> None:
        task = self._tasks.spawn(self._deliver(request, work))
        # A task that is cancelled before its first step leaves the work unbegun, which Python warns of.
        task.add_done_callback(lambda _task: work.close())

    async def _deliver(
        self, request: events.SendRequest, work: Coroutine[Any, Any, events.MarkerCodes]
    ) -> None:
        event: Event = events.RequestFailed(request.number, has_timed_out=False)
        try:
            event = events.ResponseReceived(request.number, await work)
        except TimeoutError as error:
            log.info("markers not written broker=%d reason=%s", request.broker_id, error)
            event = events.RequestFailed(request.number, has_timed_out=True)
        except (OSError, KafkaError, CorruptFrame) as error:
            log.info("markers not written broker=%d reason=%s", request.broker_id, error)
        except Exception:
            # As in `_write`.
            log.exception("markers not written broker=%d", request.broker_id)
        self._handle(event)

    async def _send_request(self, request: events.SendRequest) -> events.MarkerCodes:
        """Send what is still wanted when there is a connection, and return what became of it."""
        pool = self._pool(request.broker_id)
        connection = pool.take()
        try:
            peer = await connection.connected()
            markers = self._machine.markers_of(request.number)
            if not markers:
                return {}
            message = request_of(markers)
            return codes_of(await peer.post(message, timeout_ms=connection.timeout_ms))
        finally:
            pool.release(connection)

    def _pool(self, broker_id: BrokerId) -> ConnectionPool:
        pool = self._pools.get(broker_id)
        if pool is None:
            timeout_ms = 2 * self._context.config.integer("request.timeout.ms")
            pool = self._pools[broker_id] = ConnectionPool(
                self._context, broker_id, "markers", timeout_ms, _MAX_FREE_CONNECTIONS
            )
        return pool

    # -- deletion

    async def _check_deletion(self, check: events.CheckDeletion) -> None:
        is_deleted = False
        try:
            is_deleted = not await self._is_registered(check.topic_partition)
        except (ConnectionError, RegistryRefused, ValueError, KeyError) as error:
            log.info("deletion not known partition=%s reason=%s", check.topic_partition, error)
        except Exception:
            # A bug must not end the retries.
            log.exception("deletion not known partition=%s", check.topic_partition)
        self._handle(events.DeletionChecked(check.number, is_deleted))

    async def _is_registered(self, topic_partition: TopicPartition) -> bool:
        """Return whether the registry has a partition; a topic that was made again may have fewer than before."""
        path = znodes.topic_path(topic_partition.topic)
        try:
            data, _stat = await self._context.registry.get(path)
        except RegistryRefused as refused:
            if refused.error is not ZnodeError.NO_NODE:
                raise
            return False
        node = decode_or_none(data, znodes.TopicNode.decode, path)
        return node is None or topic_partition.partition in node.assignment


def _reports(
    needed: list[events.MarkersNeeded],
) -> dict[Coordinator, list[MarkersWritten]]:
    """Return what coordinators learn when all markers are written."""
    reports: dict[Coordinator, list[MarkersWritten]] = {}
    for coordinator, transaction in needed:
        written = MarkersWritten(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.partitions,
        )
        reports.setdefault(coordinator, []).append(written)
    return reports


def _report(coordinator: Coordinator, written: list[MarkersWritten]) -> None:
    """Report written markers to the coordinator of their transactions."""
    try:
        coordinator.post_all(written)
    except Exception:
        # A bug in one coordinator must not keep others from what is theirs.
        ids = ",".join(event.transactional_id for event in written)
        log.exception("written markers not reported ids=%s", ids)
