"""The channels of a controller: one for each life of each broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka.broker.context import BrokerContext
from kavka.broker.control.broker_channel import BrokerChannel, Link, LocalLink
from kavka.broker.control.control_request_builder import ControlRequestBuilder, LargeWork
from kavka.broker.control.control_requests import ControlRequests
from kavka.core.controller.events import (
    BrokerCleared,
    BrokerSuspected,
    Event,
)
from kavka.core.controller.machine import ControllerMachine
from kavka.core.controller.state import LiveBroker

if TYPE_CHECKING:
    from kavka.broker.control.shared_updates import SharedBodies

log = logging.getLogger(__name__)


class _FailureDetector:
    """Reports of the link to one registration of a broker about its liveness, for the machine and for the log."""

    def __init__(self, live: LiveBroker, submit: Callable[[Event], None]) -> None:
        self._live = live
        self._submit = submit
        self._is_refused = False

    def refused(self) -> None:
        """Report a refused connection: leaders are elected elsewhere, though the broker is registered."""
        self._is_refused = True
        log.warning("broker suspected, connection refused broker=%d", self._live.broker_id)
        self._submit(BrokerSuspected(self._live.broker_id, self._live.epoch))

    def connected(self) -> None:
        """Note that the broker is alive."""
        if self._is_refused:
            log.info("suspected broker answers again broker=%d", self._live.broker_id)
        self._is_refused = False
        self._submit(BrokerCleared(self._live.broker_id, self._live.epoch))


class ControllerChannelManager:
    """Opens and closes channels as brokers come and go, and wakes those that have something to send."""

    def __init__(
        self,
        context: BrokerContext,
        control_requests: ControlRequests,
        submit: Callable[[Event], None],
        large_work: LargeWork,
    ) -> None:
        """`control_requests` are this broker's own; `submit` takes responses, and evidence of brokers' deaths."""
        self._context = context
        self._control_requests = control_requests
        self._submit = submit
        self._large_work = large_work
        self._channels: dict[int, BrokerChannel] = {}
        self._bodies: SharedBodies | None = None
        self._is_first = True
        self._stopping: set[asyncio.Task[None]] = set()

    def update(self, machine: ControllerMachine) -> None:
        """Adapt the channels to the brokers that the machine knows, and wake those with dirty partitions."""
        if self._bodies is not None:
            self._bodies.drop_outdated()  # they take memory: the largest have a state for each partition
        brokers = machine.state.brokers
        for broker, channel in list(self._channels.items()):
            live = brokers.get(broker)
            if live is None or live.epoch != channel.broker_epoch:
                del self._channels[broker]
                self._stop_later(channel)
        for broker, live in brokers.items():
            if broker not in self._channels:
                self._open(machine, live)
        self._is_first = False
        for broker in machine.outbox.waiting():
            if broker in self._channels:
                self._channels[broker].wake()

    async def flushed(self, broker: int) -> None:
        """Wait until a broker has acknowledged all updates that are pending for it now."""
        channel = self._channels.get(broker)
        if channel is not None:
            await channel.flushed()

    def close_all(self) -> None:
        """Close all channels: another machine will open its own."""
        channels, self._channels = self._channels, {}
        self._bodies = None
        self._is_first = True
        for channel in channels.values():
            self._stop_later(channel)

    async def stop(self) -> None:
        """Close all channels and wait for that."""
        self.close_all()
        await asyncio.gather(*self._stopping)

    def _stop_later(self, channel: BrokerChannel) -> None:
        task = asyncio.get_running_loop().create_task(channel.stop())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    def _open(self, machine: ControllerMachine, live: LiveBroker) -> None:
        link = self._link(live)
        if link is None:
            return
        listener = self._context.config.inter_broker_listener
        bodies = None if isinstance(link, LocalLink) else self._shared_bodies(machine)
        builder = ControlRequestBuilder(
            machine, self._context.broker_id, listener, live.epoch, self._large_work, bodies
        )
        self._channels[live.broker_id] = BrokerChannel(
            live.broker_id, live.epoch, machine.outbox, link, builder, self._submit
        )

    def _shared_bodies(self, machine: ControllerMachine) -> SharedBodies:
        """Return what all other brokers of this machine share; a lone broker does not pay for it."""
        if self._bodies is None:
            from kavka.broker.control.shared_updates import SharedBodies

            self._bodies = SharedBodies(machine)
        return self._bodies

    def _link(self, live: LiveBroker) -> Link | None:
        if live.broker_id == self._context.broker_id:
            return LocalLink(self._control_requests)
        from kavka.broker.control.remote_link import STARTING_S, RemoteLink

        config, failure_detector = self._context.config, _FailureDetector(live, self._submit)
        for endpoint in live.endpoints:
            if endpoint.listener == config.inter_broker_listener:
                return RemoteLink(
                    self._context.environment.network,
                    endpoint,
                    config.integer("controller.socket.timeout.ms"),
                    failure_detector.refused,
                    failure_detector.connected,
                    # Brokers that registered before this controller may have died with the previous one.
                    starting_s=0 if self._is_first else STARTING_S,
                    security=self._context.peer_security,
                )
        log.error(
            "broker without the listener that brokers use broker=%d listener=%s",
            live.broker_id,
            config.inter_broker_listener,
        )
        return None
