"""Requests, bytes and connections of a client: the base of the metrics of all clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Self

from kavka.client.metrics.names import MetricName, Metrics, Named, counted, occurrences, spread
from kavka.client.metrics.sensors import Sensor, Sum, Window
from kavka.io import Clock
from kavka.net.clock import SystemClock
from kavka.wire.apis import ApiKey

_numbers: dict[str, count[int]] = {}


class ClientMeter:
    """The sensors of every client. Methods that count belong to the loop's thread; `metrics` to any."""

    kind = "client"
    group = "client-metrics"

    def __init__(self, client_id: str, clock: Clock, window: Window) -> None:
        """Take `client.id`; where it is empty, the name is such as `producer-1`, as in Java."""
        number = _numbers.setdefault(self.kind, count(1))
        self.client_id = client_id or f"{self.kind}-{next(number)}"
        self.clock = clock
        self.window = window
        self.connection_count: Callable[[], int] = lambda: 0
        self.metadata_age_s: Callable[[], float] = lambda: 0.0
        self._connections = Sensor(window)
        self._sent = Sensor(window)
        self._responses: dict[int, Sensor] = {}
        self._response_bytes: dict[int, Sensor] = {}
        self._last_responses: dict[int, int] = {}

    @classmethod
    def example(cls) -> Self:
        """Return a meter that has all metrics, for those who need their names beforehand."""
        return cls("example", SystemClock(), Window())

    # Called by the connections.

    def connected(self) -> None:
        """Count a connection."""
        self._connections.add(1, self.clock.tick_ms())

    def sent(self, size: int) -> None:
        """Count a request."""
        self._sent.add(size, self.clock.tick_ms())

    def answered(self, api_key: int, size: int, latency_s: float) -> None:
        """Count a response."""
        now_ms = self.clock.tick_ms()
        latency = self._responses.get(api_key)
        if latency is None:
            self._response_bytes[api_key] = Sensor(self.window)
            latency = self._responses[api_key] = Sensor(self.window)
        latency.add(latency_s * 1000, now_ms)
        self._response_bytes[api_key].add(size, now_ms)
        self._last_responses[api_key] = now_ms

    # Asked for by users and reporters.

    def metrics(self) -> Metrics:
        """Return all values as they are now."""
        now_ms = self.clock.tick_ms()
        found: Metrics = {}
        for group, tags, named in self.groups(now_ms):
            all_tags = (("client-id", self.client_id), *tags)
            for name, value in named:
                found[MetricName(name, group, all_tags)] = float(value)
        return found

    def groups(self, now_ms: int) -> Iterator[tuple[str, tuple[tuple[str, str], ...], Named]]:
        """Yield group, further tags, names and values."""
        yield self.group, (), self._common(now_ms)

    def _common(self, now_ms: int) -> Named:
        opened = self.connection_count()
        connections, sent = Sum([self._connections], now_ms), Sum([self._sent], now_ms)
        latency = Sum(list(self._responses.values()), now_ms)
        received = Sum(list(self._response_bytes.values()), now_ms)
        yield "connection-count", opened
        yield from counted("connection-creation", connections)
        yield "connection-close-total", max(connections.total - opened, 0)
        yield from occurrences("request", sent)
        yield from spread("request-size", sent)
        yield from counted("outgoing-byte", sent)
        yield from occurrences("response", received)
        yield from counted("incoming-byte", received)
        yield "network-io-total", sent.count + received.count
        yield "network-io-rate", sent.occurrence_rate() + received.occurrence_rate()
        yield from spread("request-latency", latency)
        yield "metadata-age", self.metadata_age_s()

    def responses(self, api_key: ApiKey, now_ms: int) -> Sum:
        """Return the latencies of an API's answers in milliseconds."""
        known = self._responses.get(api_key)
        return Sum([] if known is None else [known], now_ms)

    def response_bytes(self, api_key: ApiKey, now_ms: int) -> Sum:
        """Return the sizes of an API's answers."""
        known = self._response_bytes.get(api_key)
        return Sum([] if known is None else [known], now_ms)

    def seconds_since_response(self, api_key: ApiKey, now_ms: int) -> float:
        """Return the age of an API's last response, -1 before the first, as in Kafka."""
        last_ms = self._last_responses.get(api_key)
        return -1.0 if last_ms is None else (now_ms - last_ms) / 1000


class AdminMeter(ClientMeter):
    """The sensors of an admin client."""

    kind = "adminclient"
    group = "admin-client-metrics"
