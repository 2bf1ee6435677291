"""The rates of new connections: of listeners, of the broker, and of addresses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.core.quota.rate import Average, LimitedRate, Windows
from kavka.core.quota.sensors import Sensors


class AcceptedRate:
    """The rate of accepted connections, and the times for which it was too high."""

    __slots__ = ("rate", "throttle_ms")

    def __init__(self, windows: Windows) -> None:
        """Begin with none."""
        self.rate = LimitedRate(windows, windows.window_ms)
        self.throttle_ms = Average()


class AcceptRates:
    """The rates of one broker. No throttle time is longer than a window, as in Apache Kafka."""

    def __init__(self, config: BrokerConfig, listeners: Iterable[str]) -> None:
        """Begin with nothing counted; listeners may be added later."""
        self._windows = windows = Windows(
            config.integer("quota.window.num"), config.integer("quota.window.size.seconds")
        )
        self.of_listeners: defaultdict[str, AcceptedRate] = defaultdict(
            lambda: AcceptedRate(windows), {name: AcceptedRate(windows) for name in listeners}
        )
        self.ip_throttle_ms: defaultdict[str, Average] = defaultdict(
            Average, {name: Average() for name in self.of_listeners}
        )
        """The times of connections above the rates of their addresses, by listener."""
        self._of_broker = LimitedRate(windows, windows.window_ms)
        self._of_addresses: Sensors[str, LimitedRate] = Sensors(lambda: LimitedRate(windows))

    def throttle_ms(self, name: str, limit: int, of_broker: int | None, now_ms: int) -> int:
        """Count a connection, and return for how long its listener is to accept no other.

        `limit` is the listener's, `of_broker` that of all listeners; None where this one does not count.
        """
        accepted = self.of_listeners[name]
        throttle_ms = accepted.rate.record(1, limit, now_ms)
        if of_broker is not None:
            throttle_ms = max(throttle_ms, self._of_broker.record(1, of_broker, now_ms))
        if throttle_ms > 0:
            accepted.throttle_ms.record(throttle_ms, now_ms)
        return throttle_ms

    def address_throttle_ms(self, host: str, name: str, limit: float, now_ms: int) -> int:
        """Count a connection from an address unless there are too many; return for how long there are."""
        rate = self._of_addresses.get(host, now_ms)
        rate.rate.record(1, now_ms)
        throttle_ms = min(rate.excess_ms(limit, now_ms), self._windows.window_ms)
        if throttle_ms > 0:
            rate.rate.record(-1, now_ms)  # what is refused does not count
            self.ip_throttle_ms[name].record(throttle_ms, now_ms)
        return throttle_ms
