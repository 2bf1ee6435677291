"""The connections that are accepted: how many there may be, and how many come in a second (KIP-402, KIP-612).

    max.connections                  of the broker, or of a listener: the listeners that have reached it accept no more.
                                     The listener between brokers, where it is one of its own, goes by its own limit
                                     only; above the broker's limit the connection that was used least recently of
                                     another listener is closed
    max.connection.creation.rate     of the broker, or of a listener: a connection above it is the last one that is
                                     accepted until the rate is back at the limit, a window at most
    connection_creation_rate         of an address: a connection above it is kept unread for as long, then closed

Connections whose TLS handshake is in progress count, and no handshake begins above a limit of their address.
Connections that are not accepted wait in the kernel, up to the backlog of the listener.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.broker.context import BrokerContext
from kavka.net.connection import Connection

if TYPE_CHECKING:
    from kavka.broker.quotas.accept_rates import AcceptRates
    from kavka.broker.quotas.quota_manager import QuotaManager

_UNLIMITED: Final = (1 << 31) - 1
_MAX_HELD: Final = 1024
"""Connections above the rates of their addresses that are kept open for a while; others are closed at once."""


class _Limits(NamedTuple):
    """Limits of a listener, or of the broker."""

    connections: int
    rate: int


class ConnectionQuotas:
    """Implements `requests.connections.ConnectionControl`."""

    def __init__(
        self,
        context: BrokerContext,
        quotas: QuotaManager,
        set_accepting: Callable[[str, bool], None],
        connections: Callable[[], Iterable[Connection]],
    ) -> None:
        """Count nothing yet; `set_accepting` lets a listener accept or not, `connections` are the open ones."""
        self._clock = context.clock
        self._effective_configs = context.effective_configs
        self._quotas = quotas
        self._set_accepting = set_accepting
        self._connections = connections
        self._config = context.config
        self._counts: dict[str, int] = {}
        """By listener, also of those that are closed, whose connections are not."""
        self._protected: str | None = None
        self._total = 0  # Invariant: the sum of _counts
        self.rates: AcceptRates | None = None
        """The rates of connections, once one is limited: without that their modules are not imported."""
        self._resumed_at: dict[str, asyncio.TimerHandle] = {}
        self._held: dict[Connection, asyncio.TimerHandle] = {}
        self._values: object = None
        self._of_broker = _Limits(_UNLIMITED, _UNLIMITED)
        self._of_listeners: dict[str, _Limits] = {}
        self._context = context
        self.listeners_changed()
        context.on_endpoints_change.append(self.listeners_changed)
        context.effective_configs.on_broker_change.append(self.reconfigure)

    def listeners_changed(self) -> None:
        """Count the connections of the listeners that there are now."""
        names = self._context.endpoints.names
        self._counts.update((name, 0) for name in names if name not in self._counts)
        self._protected = self._config.inter_broker_listener if len(names) > 1 else None
        self._values = None

    def reconfigure(self) -> None:
        """Go by the settings as they are now."""
        for name in self._counts:
            self._decide(name)

    def entered(self, name: str) -> None:
        """Count a connection that a listener lets in, and let it, or all, accept no more if that is the limit."""
        self._counts[name] += 1
        self._total += 1
        throttle_ms = self._throttle_ms(name)
        if throttle_ms > 0:
            self._pause(name, throttle_ms)
        of_broker = self._limits()
        if self._total > of_broker.connections and name == self._protected:
            self._close_least_recent(name)
        if self._total >= of_broker.connections:
            self.reconfigure()
        else:
            self._decide(name)

    def left(self, name: str) -> None:
        """Count a connection of a listener no more: it is closed, or its handshake came to nothing."""
        was_full = self._total >= self._limits().connections
        self._counts[name] -= 1
        self._total -= 1
        if was_full:
            self.reconfigure()
        else:
            self._decide(name)

    def address_throttle_ms(self, name: str, host: str) -> int:
        """Return for how long a connection is above the rate of its address, and count it if it is not."""
        rates = self._quotas.ip_rates
        if not rates:
            return 0
        limit = rates.get(host, rates.get(None))
        if limit is None:
            return 0
        return self._rates().address_throttle_ms(host, name, limit, self._clock.tick_ms())

    def hold(self, connection: Connection, throttle_ms: int) -> None:
        """Keep a connection unread for so long, then close it; at once if too many are held."""
        if len(self._held) < _MAX_HELD:
            connection.hold_open()
            loop = asyncio.get_running_loop()
            self._held[connection] = loop.call_later(throttle_ms / 1000, self._close, connection)

    def stop(self) -> None:
        """Close what is held, and decide no more."""
        for timer in self._resumed_at.values():
            timer.cancel()
        self._resumed_at.clear()
        for connection in list(self._held):
            self._held[connection].cancel()
            self._close(connection)

    # -- inside

    def _close(self, connection: Connection) -> None:
        del self._held[connection]
        connection.abort()

    def _limits(self) -> _Limits:
        """Return the limits of the broker, and have those of the listeners up to date."""
        values = self._effective_configs.broker_values()
        if values is not self._values:
            self._values = values
            self._of_broker = _limits(self._effective_configs.broker_integer)
            self._of_listeners = {
                name: _limits(self._effective_configs.listener(name).integer)
                for name in self._counts
            }
        return self._of_broker

    def _throttle_ms(self, name: str) -> int:
        """Count a connection in the rates that are limited, and return for how long they are too high."""
        of_broker: int | None = self._limits().rate
        if name == self._protected or of_broker == _UNLIMITED:
            of_broker = None
        of_listener = self._of_listeners[name].rate
        if of_broker is None and of_listener == _UNLIMITED:
            return 0
        return self._rates().throttle_ms(name, of_listener, of_broker, self._clock.tick_ms())

    def _rates(self) -> AcceptRates:
        if self.rates is None:
            from kavka.broker.quotas.accept_rates import AcceptRates

            self.rates = AcceptRates(self._config, self._counts)
        return self.rates

    def _pause(self, name: str, throttle_ms: int) -> None:
        timer = self._resumed_at.get(name)
        if timer is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._resumed_at[name] = loop.call_later(throttle_ms / 1000, self._end_pause, name)

    def _end_pause(self, name: str) -> None:
        del self._resumed_at[name]
        self._decide(name)

    def _decide(self, name: str) -> None:
        of_broker = self._limits()
        is_full = self._counts[name] >= self._of_listeners[name].connections
        if name != self._protected:
            is_full = is_full or self._total >= of_broker.connections
        self._set_accepting(name, not is_full and name not in self._resumed_at)

    def _close_least_recent(self, protected: str) -> None:
        """Make room for a broker: close the connection of another listener that was used least recently."""
        others = [one for one in self._connections() if one.listener_name != protected]
        if others:
            min(others, key=lambda one: one.last_active_ms).abort()


def _limits(setting: Callable[[str], int]) -> _Limits:
    return _Limits(setting("max.connections"), setting("max.connection.creation.rate"))
