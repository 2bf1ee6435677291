"""The way to one broker: one request in progress, what is dirty meanwhile is sent next, failures are tried again.

To the controller's own broker the way is a call, to another a connection (`remote_link`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from kavka.broker.control.control_request_builder import (
    ControlRequestBuilder,
    leader_and_isr_errors,
    topic_names_in,
)
from kavka.broker.control.control_requests import ControlRequests
from kavka.core.controller.broker_updates import Outbox, PendingUpdates
from kavka.core.controller.events import (
    ControlResponseReceived,
)
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.leader_and_isr import LeaderAndIsrRequest
from kavka.wire.messages.stop_replica import StopReplicaRequest

log = logging.getLogger(__name__)

_RETRY_S = 0.1
_NOT_CONTROLLER_ERRORS: Final = (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH)
"""Errors that mean that a newer controller is active, or that the broker has registered again: a watch reports
both.
"""
_STALE_ERRORS: Final = (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR)
_MAX_FAULTS: Final = 20
"""Maximum of failed halves; with more, it is not the fault of some partitions."""


class _ControlRequestRefused(Exception):
    """A broker refused a whole request for what is in it."""


class Link(Protocol):
    """Transport of requests to a broker."""

    async def send(self, request: Any) -> Any:
        """Return the response. Raise OSError or CorruptFrame when it is unknown whether the broker applied."""
        ...

    async def stop(self) -> None:
        """Let go."""
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


class BrokerChannel:
    """Takes what is dirty for one broker, in one of its lives, and sends it."""

    def __init__(
        self,
        broker: int,
        broker_epoch: int,
        outbox: Outbox,
        link: Link,
        builder: ControlRequestBuilder,
        answered: Callable[[ControlResponseReceived], None],
    ) -> None:
        """Send nothing before an update is pending; `answered` gets the broker's responses."""
        self.broker = broker
        self.broker_epoch = broker_epoch
        self._outbox = outbox
        self._link = link
        self._builder = builder
        self._answered = answered
        self._dirty = asyncio.Event()
        self._sequence_taken = 0
        self._sequence_finished = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        """Look whether something is dirty."""
        self._dirty.set()

    async def flushed(self) -> None:
        """Wait until all that is dirty now has been sent and answered."""
        is_pending = self.broker in self._outbox.waiting()
        target = self._sequence_taken + (1 if is_pending else 0)
        if self._sequence_finished >= target:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((target, done))
        self.wake()
        await done

    async def _run(self) -> None:
        while True:
            pending = self._outbox.take(self.broker)
            if pending is None:
                self._dirty.clear()
                await self._dirty.wait()
                continue
            self._sequence_taken += 1
            await self._deliver(pending)
            self._sequence_finished = self._sequence_taken
            self._notify_flushed()

    async def _deliver(self, pending: PendingUpdates) -> None:
        """Send pending updates; those that could not be sent are dirty again.

        Updates that cannot be sent, or are refused, are sent in halves: one partition must not block the others.
        """
        todo, failed = [pending], list[PendingUpdates]()
        while todo:
            part = todo.pop()
            try:
                await self._send(part)
            except (OSError, KafkaError, CorruptFrame) as error:
                log.info("control request not answered broker=%d reason=%s", self.broker, error)
                failed += [part, *todo]
                break
            except Exception:
                # A bug must not end the task: the broker would never be sent a request again.
                halves = part.split()
                todo += reversed(halves)
                if not halves:
                    log.exception(
                        "control request failed broker=%d partitions=%s", self.broker, part
                    )
                    failed.append(part)
                if len(failed) == _MAX_FAULTS:
                    failed += todo
                    break
        for part in failed:
            self._outbox.put_back(self.broker, part)
        if failed:
            await asyncio.sleep(_RETRY_S)

    async def _send(self, pending: PendingUpdates) -> None:
        applied: dict[TopicPartition, ErrorCode] = {}
        deleted: dict[TopicPartition, ErrorCode] = {}
        for request in self._builder.requests(pending):
            response = await self._link.send(request)
            code = ErrorCode.of(response.error_code)
            if code in _NOT_CONTROLLER_ERRORS:
                log.info("control request refused broker=%d error=%s", self.broker, code.name)
                continue
            if code in _STALE_ERRORS:
                raise _ControlRequestRefused(f"{type(request).__name__}: {code.name}")
            if code is not ErrorCode.NONE:
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
            self._answered(event)

    def _notify_flushed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for target, done in waiting:
            if done.done():
                continue
            if self._sequence_finished >= target:
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
