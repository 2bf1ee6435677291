"""The way to one broker: one request under way, what is dirty meanwhile is sent next, failures are tried again.

To the controller's own broker the way is a call, to another a connection (`remote_link`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from kavka.broker.control.rendering import Renderer, leader_and_isr_errors, names_told
from kavka.broker.orders import Orders
from kavka.core.controller.events import (
    OrderAnswered,
)
from kavka.core.controller.orders import Order, Outbox
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.leader_and_isr import LeaderAndIsrRequest
from kavka.wire.messages.stop_replica import StopReplicaRequest

log = logging.getLogger(__name__)

_RETRY_S = 0.1
_OUT_OF_OFFICE: Final = (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH)
"""A newer controller rules, or the broker lives anew: both come by a watch."""
_OUT_OF_ORDER: Final = (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR)
_MOST_FAULTS: Final = 20
"""In one order; if there are more, it is not some partitions' fault."""


class _NotObeyed(Exception):
    """A broker refused a whole request for what is in it."""


class Link(Protocol):
    """How requests get to a broker."""

    async def send(self, request: Any) -> Any:
        """Return the response. Raise OSError or CorruptFrame when it is unknown whether the broker obeyed."""
        ...

    async def stop(self) -> None:
        """Let go."""
        ...


class LocalLink:
    """Orders to the controller's own broker."""

    def __init__(self, orders: Orders) -> None:
        """Call `orders`."""
        self._orders = orders

    async def send(self, request: Any) -> Any:
        """Have it obeyed."""
        if isinstance(request, LeaderAndIsrRequest):
            return await self._orders.leader_and_isr(request)
        if isinstance(request, StopReplicaRequest):
            return await self._orders.stop_replica(request)
        return await self._orders.update_metadata(request)

    async def stop(self) -> None:
        """Nothing is held."""


class Channel:
    """Takes what is dirty for one broker, in one of its lives, and sends it."""

    def __init__(
        self,
        broker: int,
        broker_epoch: int,
        outbox: Outbox,
        link: Link,
        renderer: Renderer,
        answered: Callable[[OrderAnswered], None],
    ) -> None:
        """Send nothing before something is dirty; `answered` is told what brokers answer."""
        self.broker = broker
        self.broker_epoch = broker_epoch
        self._outbox = outbox
        self._link = link
        self._renderer = renderer
        self._answered = answered
        self._dirty = asyncio.Event()
        self._taken = 0
        self._finished = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        """Look whether something is dirty."""
        self._dirty.set()

    async def flushed(self) -> None:
        """Wait until all that is dirty now has been sent and answered."""
        pending = self.broker in self._outbox.waiting()
        target = self._taken + (1 if pending else 0)
        if self._finished >= target:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((target, done))
        self.wake()
        await done

    async def _run(self) -> None:
        while True:
            order = self._outbox.take(self.broker)
            if order is None:
                self._dirty.clear()
                await self._dirty.wait()
                continue
            self._taken += 1
            await self._carry(order)
            self._finished = self._taken
            self._tell_flushed()

    async def _carry(self, order: Order) -> None:
        """Send an order; what did not get through is dirty again.

        An order that cannot be sent, or is refused, is sent in halves: one partition must not keep the others'.
        """
        todo, failed = [order], list[Order]()
        while todo:
            part = todo.pop()
            try:
                await self._send(part)
            except (OSError, KafkaError, CorruptFrame) as error:
                log.info("order not answered broker=%d reason=%s", self.broker, error)
                failed += [part, *todo]
                break
            except Exception:
                # A fault of ours must not end the task: the broker would never be told anything again.
                halves = part.halves()
                todo += reversed(halves)
                if not halves:
                    log.exception("order failed broker=%d partitions=%s", self.broker, part)
                    failed.append(part)
                if len(failed) == _MOST_FAULTS:
                    failed += todo
                    break
        for part in failed:
            self._outbox.put_back(self.broker, part)
        if failed:
            await asyncio.sleep(_RETRY_S)

    async def _send(self, order: Order) -> None:
        obeyed: dict[TopicPartition, ErrorCode] = {}
        deleted: dict[TopicPartition, ErrorCode] = {}
        for request in self._renderer.requests(order):
            response = await self._link.send(request)
            code = ErrorCode.of(response.error_code)
            if code in _OUT_OF_OFFICE:
                log.info("order refused broker=%d error=%s", self.broker, code.name)
                continue
            if code in _OUT_OF_ORDER:
                raise _NotObeyed(f"{type(request).__name__}: {code.name}")
            if code is not ErrorCode.NONE:
                raise KafkaError(code)
            if isinstance(request, LeaderAndIsrRequest):
                obeyed = leader_and_isr_errors(response, names_told(request))
            elif isinstance(request, StopReplicaRequest):
                for row in response.partition_errors:
                    where = TopicPartition(row.topic_name, row.partition_index)
                    if where in order.stops and order.stops[where].deletes:
                        deleted[where] = ErrorCode.of(row.error_code)
        if obeyed or deleted:
            event = OrderAnswered(self.broker, self.broker_epoch, obeyed, deleted)
            self._answered(event)

    def _tell_flushed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for target, done in waiting:
            if done.done():
                continue
            if self._finished >= target:
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
