"""The way to one broker: one request under way, what is dirty meanwhile is sent next, failures are tried again.

To the controller's own broker the way is a call. To another it is a connection, which is kept open, because it tells
early when the broker is dead (REP-14):

    connected --broken--> connecting --refused: nobody listens--> told as `refused` once, tried after 100 ms ... 1 s
        ^                     | any other failure: tried after 100 ms, no evidence
        +---------------------+ connected: told as `connected`; broken within 100 ms: tried after 100 ms

A broker that has only just registered may not listen yet: Apache Kafka's opens its port some hundred milliseconds
later, even when it is elected controller meanwhile. So its first refusals are no evidence.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from kavka.broker.control.rendering import Renderer, leader_and_isr_errors, names_told
from kavka.broker.orders import Orders
from kavka.core.controller.events import (
    OrderAnswered,
)
from kavka.core.controller.orders import Order, Outbox
from kavka.core.controller.state import Endpoint
from kavka.doors import Network
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.net.peer import Peer
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.leader_and_isr import LeaderAndIsrRequest
from kavka.wire.messages.stop_replica import StopReplicaRequest

log = logging.getLogger(__name__)

_RETRY_S = 0.1
_MOST_RETRY_S = 1.0
_CONNECT_MS = 3_000
STARTING_S = 3.0
"""How long a broker that never listened may take until it does."""


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


class RemoteLink:
    """A connection that is made anew whenever it breaks."""

    def __init__(
        self,
        network: Network,
        endpoint: Endpoint,
        timeout_ms: int,
        refused: Callable[[], None],
        connected: Callable[[], None],
        starting_s: float = STARTING_S,
    ) -> None:
        """Connect at once; `refused` and `connected` are told of each change between the two.

        `starting_s` is for how long a refusal says nothing, as long as there was no connection.
        """
        self._network = network
        self._endpoint = endpoint
        self._timeout_ms = timeout_ms
        self._refused = refused
        self._connected = connected
        self._peer: Peer | None = None
        self._open = asyncio.Event()
        self._is_stopped = False
        self._starting_s = starting_s
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def send(self, request: Any) -> Any:
        """Wait for a connection, and send. Raise ConnectionError when the link is given up."""
        while self._peer is None or self._peer.is_closed:
            if self._is_stopped:
                raise ConnectionError(f"the link to {self._endpoint} was given up")
            self._open.clear()
            await self._open.wait()
        return await self._peer.send(request, timeout_ms=self._timeout_ms)

    async def _keep(self) -> None:
        is_refused = False
        wait_s = _RETRY_S
        loop = asyncio.get_running_loop()
        believed_from = loop.time() + self._starting_s
        while True:
            try:
                peer = await Peer.connect(
                    self._network,
                    self._endpoint.host,
                    self._endpoint.port,
                    client_id="kavka-controller",
                    timeout_ms=min(_CONNECT_MS, self._timeout_ms),
                )
            except ConnectionRefusedError:
                if not is_refused and loop.time() >= believed_from:
                    is_refused = True
                    self._refused()
            except (OSError, KafkaError, CorruptFrame) as error:
                log.info("broker not reached at=%s reason=%s", self._endpoint, error)
            else:
                is_refused, wait_s, believed_from = False, _RETRY_S, loop.time()
                self._peer = peer
                self._connected()
                self._open.set()
                await peer.wait_closed()
                self._peer = None
                if loop.time() - believed_from >= _RETRY_S:
                    continue  # at once: whether it is refused now tells whether the broker died
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _MOST_RETRY_S) if is_refused else _RETRY_S

    async def stop(self) -> None:
        """Close the connection; who waits for one is told."""
        self._is_stopped = True
        self._open.set()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._peer is not None:
            self._peer.close()


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
        """Send an order; what did not get through is dirty again."""
        try:
            await self._send(order)
        except (OSError, KafkaError, CorruptFrame) as error:
            log.info("order not answered broker=%d reason=%s", self.broker, error)
            self._outbox.put_back(self.broker, order)
            await asyncio.sleep(_RETRY_S)
        except Exception:
            # A fault of ours must not end the task: the broker would never be told anything again.
            log.exception("order failed broker=%d", self.broker)
            self._outbox.put_back(self.broker, order)
            await asyncio.sleep(_RETRY_S)

    async def _send(self, order: Order) -> None:
        obeyed: dict[TopicPartition, ErrorCode] = {}
        deleted: dict[TopicPartition, ErrorCode] = {}
        for request in self._renderer.requests(order):
            response = await self._link.send(request)
            if response.error_code != ErrorCode.NONE:
                # A newer controller rules, or the broker lives anew: both come by a watch.
                code = ErrorCode.of(response.error_code)
                log.info("order refused broker=%d error=%s", self.broker, code.name)
                continue
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
