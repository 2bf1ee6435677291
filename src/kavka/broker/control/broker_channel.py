"""The way to one broker: one request in progress, what is dirty meanwhile is sent next, failures are tried again.

The decisions are those of `kavka.core.controller.update_delivery`. To the controller's own broker the way is a call, to
another a connection (`remote_link`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kavka.broker.control.control_request_builder import (
    ControlRequestBuilder,
    leader_and_isr_errors,
    topic_names_in,
)
from kavka.broker.control.control_requests import ControlRequests
from kavka.broker.lazy import Lazy
from kavka.core.controller.broker_updates import Outbox, PendingUpdates
from kavka.core.controller.events import ControlResponseReceived
from kavka.core.controller.update_delivery import UpdateDelivery, Verdict, verdict
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.leader_and_isr import LeaderAndIsrRequest
from kavka.wire.messages.stop_replica import StopReplicaRequest

if TYPE_CHECKING:
    from kavka.broker.control.refusals_by_brokers import RefusalsByBrokers

log = logging.getLogger(__name__)


class _ControlRequestRefused(Exception):
    """A broker refused a whole request for what is in it."""


class Link(Protocol):
    """Transport of requests to a broker."""

    async def send(self, request: Any) -> Any:
        """Return the response to a request of `ControlRequestBuilder`.

        Raise OSError or CorruptFrame when it is unknown whether the broker applied.
        """
        ...

    async def stop(self) -> None:
        """Stop."""
        ...


class LocalLink:
    """Control requests to the controller's own broker."""

    def __init__(self, control_requests: ControlRequests) -> None:
        """Call `control_requests`."""
        self._control_requests = control_requests

    async def send(self, request: Any) -> Any:
        """Apply the request."""
        if isinstance(request, LeaderAndIsrRequest):
            return await self._control_requests.leader_and_isr(request)
        if isinstance(request, StopReplicaRequest):
            return await self._control_requests.stop_replica(request)
        return await self._control_requests.update_metadata(request)

    async def stop(self) -> None:
        """Do nothing: there is no connection."""


def _refusals() -> RefusalsByBrokers:
    from kavka.broker.control.refusals_by_brokers import RefusalsByBrokers

    return RefusalsByBrokers()


class BrokerChannel:
    """Takes what is dirty for one broker, in one of its lives, and sends it."""

    def __init__(
        self,
        broker: int,
        broker_epoch: int,
        outbox: Outbox,
        link: Link,
        builder: ControlRequestBuilder,
        on_response: Callable[[ControlResponseReceived], None],
    ) -> None:
        """Send nothing before an update is pending; `on_response` gets the broker's responses."""
        self.broker = broker
        self.broker_epoch = broker_epoch
        self._delivery = UpdateDelivery(broker, outbox)
        self._link = link
        self._builder = builder
        self._on_response = on_response
        self._refusals = Lazy(_refusals)
        self._dirty = asyncio.Event()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        """Check for dirty partitions in the next iteration of the loop."""
        self._dirty.set()

    async def flushed(self) -> None:
        """Wait until all that is dirty now has been sent and answered."""
        target = self._delivery.flush_target()
        if self._delivery.finished >= target:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((target, done))
        self.wake()
        await done

    async def _run(self) -> None:
        while True:
            part = self._delivery.next_part(_now_ms())
            self._notify_flushed()
            if part is None:
                await self._wait()
            else:
                await self._deliver(part)

    async def _wait(self) -> None:
        """Wait for the end of a pause, or until something is dirty."""
        deadline_ms = self._delivery.deadline_ms()
        if deadline_ms is not None:
            await asyncio.sleep(max(0, deadline_ms - _now_ms()) / 1000)
            return
        self._dirty.clear()
        await self._dirty.wait()

    async def _deliver(self, part: PendingUpdates) -> None:
        try:
            await self._send(part)
        except (OSError, KafkaError, CorruptFrame) as error:
            if not self._refusals.get().is_refusal(self.broker, error):
                log.info("control request not answered broker=%d reason=%s", self.broker, error)
            self._delivery.failed(_now_ms())
        except Exception:
            # A bug must not end the task: the broker would never be sent a request again.
            if not self._delivery.refused(_now_ms()):
                log.exception("control request failed broker=%d partitions=%s", self.broker, part)
        else:
            self._delivery.delivered(_now_ms())

    async def _send(self, pending: PendingUpdates) -> None:
        applied: dict[TopicPartition, ErrorCode] = {}
        deleted: dict[TopicPartition, ErrorCode] = {}
        for request in self._builder.requests(pending):
            response = await self._link.send(request)
            code = ErrorCode.of(response.error_code)
            match verdict(code):
                case Verdict.OUTDATED:
                    log.info("control request refused broker=%d error=%s", self.broker, code.name)
                    continue
                case Verdict.REFUSED:
                    raise _ControlRequestRefused(f"{type(request).__name__}: {code.name}")
                case Verdict.FAILED:
                    raise KafkaError(code)
            if isinstance(request, LeaderAndIsrRequest):
                applied = leader_and_isr_errors(response, topic_names_in(request))
            elif isinstance(request, StopReplicaRequest):
                for row in response.partition_errors:
                    topic_partition = TopicPartition(row.topic_name, row.partition_index)
                    if topic_partition in pending.stops and pending.stops[topic_partition].deletes:
                        deleted[topic_partition] = ErrorCode.of(row.error_code)
        if applied or deleted:
            event = ControlResponseReceived(self.broker, self.broker_epoch, applied, deleted)
            self._on_response(event)

    def _notify_flushed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for target, done in waiting:
            if done.done():
                continue
            if self._delivery.finished >= target:
                done.set_result(None)
            else:
                self._waiting.append((target, done))

    async def stop(self) -> None:
        """Send nothing more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._link.stop()
        for _target, done in self._waiting:
            if not done.done():
                done.set_result(None)


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
