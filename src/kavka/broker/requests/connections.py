"""The connections that are open, and what is kept for each: its session, and what waits there."""

from __future__ import annotations

import asyncio
import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from kavka.broker.configs.effective_configs import EffectiveConfigs
from kavka.broker.requests.connection_limits import ConnectionLimits
from kavka.broker.requests.deferred import DeferredResponse
from kavka.broker.requests.policies import Policies
from kavka.broker.requests.refusals import Refusals
from kavka.broker.requests.session import ConnectionAuthorizer, SessionRefused
from kavka.net.connection import Connection

if TYPE_CHECKING:
    from kavka.broker.partitions.replication_rounds import Pipeline
    from kavka.net.bounded_log import BoundedLog

log = logging.getLogger(__name__)


class ConnectionControl(Protocol):
    """The decision about new connections that goes beyond the number of those from one address."""

    def address_throttle_ms(self, listener: str, host: str) -> int:
        """Return for how long a connection above the rate of its address is kept before it is closed; else 0."""
        ...

    def hold(self, connection: Connection, throttle_ms: int) -> None:
        """Keep a connection unread for so long, then close it."""
        ...

    def entered(self, listener: str) -> None:
        """Count a connection that is let in."""
        ...

    def left(self, listener: str) -> None:
        """Count a connection no more that is closed."""
        ...


class ConnectionCounts:
    """Counters of the connections of one listener since the start."""

    __slots__ = ("bytes_received", "bytes_sent", "closed", "expired", "opened")

    def __init__(self) -> None:
        """Begin with none."""
        self.opened = 0
        self.closed = 0
        self.expired = 0
        """Closed because the client did not authenticate again in time."""
        self.bytes_sent = self.bytes_received = 0
        """By those that are closed."""


class OpenConnection:
    """The state of a connection: `Connection.attachment`."""

    __slots__ = (
        "_unmute_timer",
        "authorizer",
        "is_open",
        "number",
        "pipeline",
        "session",
        "waiting",
    )

    def __init__(self, connection: Connection, policies: Policies, number: int) -> None:
        """Open the session. A connection that was accepted later has a larger number."""
        self.number = number
        self.session = policies.open_session(connection)
        self.authorizer = (
            None
            if policies.allows is None
            else ConnectionAuthorizer(
                policies.allows, self.session, policies.allows_any, policies.denied
            )
        )
        self.is_open = True
        self.pipeline: Pipeline | None = None
        """The Produce requests in flight; None before one was judged for replication."""
        self.waiting: dict[asyncio.Future[Any] | DeferredResponse, None] = {}
        """Waiting tasks of the connection that are cancelled when it is gone."""
        self._unmute_timer: asyncio.TimerHandle | None = None

    def mute(
        self, connection: Connection, loop: asyncio.AbstractEventLoop, throttle_ms: int
    ) -> None:
        """Handle no further request of a throttled client for so long; the longest of several counts."""
        until = loop.time() + throttle_ms / 1000
        if self._unmute_timer is None:
            connection.block()
        elif self._unmute_timer.when() >= until:
            return
        else:
            self._unmute_timer.cancel()
        self._unmute_timer = loop.call_at(until, self.unmute, connection)

    def unmute(self, connection: Connection) -> None:
        """Handle the requests of a throttled client again."""
        if self._unmute_timer is not None:
            self._unmute_timer.cancel()
            self._unmute_timer = None
            if connection.meter is None:
                connection.unblock()
            else:
                with connection.meter.event():
                    connection.unblock()

    def close(self) -> None:
        """Cancel what waits: fetches, responses to what is done."""
        self.is_open = False
        if self._unmute_timer is not None:
            self._unmute_timer.cancel()
            self._unmute_timer = None
        waiting, self.waiting = self.waiting, {}
        for each in waiting:
            each.cancel()


class OpenConnections:
    """All open connections, within the limits, and their counters."""

    def __init__(self, effective_configs: EffectiveConfigs, refusals: Refusals) -> None:
        """Begin with none."""
        self.open: dict[Connection, OpenConnection] = {}
        self.counts: dict[str, ConnectionCounts] = {}
        """By listener."""
        self._last_number = 0
        self.control: ConnectionControl | None = None
        self._limits = ConnectionLimits(effective_configs)
        self._refusals = refusals

    @cached_property
    def _log(self) -> BoundedLog:
        from kavka.net.bounded_log import BoundedLog  # when the first line is written

        return BoundedLog(log)

    def enter(self, connection: Connection, policies: Policies) -> bool:
        """Take a connection unless there are too many of all, or from its address."""
        listener, host = connection.listener_name, connection.peer_host
        if not connection.is_admitted:
            hold_ms = self.admit(listener, host)
            if hold_ms is not None:
                if hold_ms > 0 and self.control is not None:
                    self.control.hold(connection, hold_ms)
                return False
        try:
            self._last_number += 1
            opened = OpenConnection(connection, policies, self._last_number)
        except SessionRefused as error:
            self._log.write(host, "connection refused peer=%s reason=%s", host, error)
            self.release(listener, host)
            return False
        connection.attachment = self.open[connection] = opened
        self.counts_of(connection).opened += 1
        return True

    def admit(self, listener: str, host: str) -> int | None:
        """Count a connection within the limits, and return None; else for how many ms it is kept, then closed.

        It is counted until `leave`, or `release` if it was never opened.
        """
        if self.control is not None:
            throttle_ms = self.control.address_throttle_ms(listener, host)
            if throttle_ms > 0:
                self._refusals.connections["connection_creation_rate"] += 1
                return throttle_ms
        refusal = self._limits.enter(host)
        if refusal is not None:
            self._log.write(host, "connection refused peer=%s reason=%s", host, refusal)
            self._refusals.connections[refusal] += 1
            return 0
        if self.control is not None:
            self.control.entered(listener)
        return None

    def release(self, listener: str, host: str) -> None:
        """Count a connection no more."""
        if self.control is not None:
            self.control.left(listener)
        self._limits.leave(host)

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self.open.pop(connection).close()
        self.release(connection.listener_name, connection.peer_host)
        counts = self.counts_of(connection)
        counts.closed += 1
        counts.bytes_sent += connection.bytes_sent
        counts.bytes_received += connection.bytes_received

    def counts_of(self, connection: Connection) -> ConnectionCounts:
        """Return the counters of a connection's listener."""
        name = connection.listener_name
        counts = self.counts.get(name)
        if counts is None:
            counts = self.counts[name] = ConnectionCounts()
        return counts
