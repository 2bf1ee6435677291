"""Reporters of metrics (`metric.reporters`): objects that are given each client of theirs when it starts and closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kavka.client.config import Config
from kavka.client.metrics.names import Metrics
from kavka.client.metrics.sensors import Window
from kavka.settings.declaration import InvalidSetting

log = logging.getLogger(__name__)


class MetricsSource(Protocol):
    """A client, as reporters see it."""

    @property
    def kind(self) -> str:
        """Return `producer`, `consumer` or `adminclient`."""
        ...

    @property
    def client_id(self) -> str:
        """Return the name in the tags."""
        ...

    def metrics(self) -> Metrics:
        """Return all values as they are now; any thread may call it."""
        ...

    def example(self) -> MetricsSource:
        """Return a source of the same kind that has all names, those of a topic and of a partition, too."""
        ...


class MetricsReporter(Protocol):
    """An object of `metric.reporters`. Both methods are called in the client's event loop, and must not wait."""

    def attach(self, source: MetricsSource, /) -> None:
        """Begin to report a client, which has started."""
        ...

    def detach(self, source: MetricsSource, /) -> None:
        """Stop to report a client, which is closed."""
        ...


class Sources:
    """The clients of one reporter, with names that are unique among them."""

    def __init__(self) -> None:
        """Begin without clients."""
        self._names: dict[MetricsSource, str] = {}

    def add(self, source: MetricsSource) -> None:
        """Add a client; the second of a name gets `-2`, as two of one name would be one series."""
        taken = {name for one, name in self._names.items() if one.kind == source.kind}
        name, number = source.client_id, 1
        while name in taken:
            number += 1
            name = f"{source.client_id}-{number}"
        self._names[source] = name

    def discard(self, source: MetricsSource) -> None:
        """Remove a client."""
        self._names.pop(source, None)

    def all(self) -> list[tuple[MetricsSource, str]]:
        """Return the clients with their names."""
        return list(self._names.items())


class CallbackReporter:
    """Calls a function with the metrics of each client, every `interval_s` seconds and a last time at its end."""

    def __init__(self, function: Callable[[Metrics], object], interval_s: float = 10.0) -> None:
        """`function(metrics)` is called in the client's event loop, and must not wait; what it raises is logged."""
        if not callable(function):
            raise TypeError(f"the function is {type(function).__name__}, which cannot be called")
        if not interval_s > 0:
            raise ValueError(f"interval_s is {interval_s}: it must be more than 0")
        self._function = function
        self._interval_s = interval_s
        self._timers: dict[MetricsSource, asyncio.TimerHandle] = {}

    def attach(self, source: MetricsSource) -> None:
        """Begin with the first interval."""
        loop = asyncio.get_running_loop()
        self._timers[source] = loop.call_later(self._interval_s, self._turn, source)

    def detach(self, source: MetricsSource) -> None:
        """Report a last time."""
        timer = self._timers.pop(source, None)
        if timer is not None:
            timer.cancel()
            self._report(source)

    def _turn(self, source: MetricsSource) -> None:
        self.attach(source)
        self._report(source)

    def _report(self, source: MetricsSource) -> None:
        try:
            self._function(source.metrics())
        except Exception:  # a report must not stop the client
            log.exception("reporter of metrics failed client=%s", source.client_id)


def reporters_of(config: Config) -> list[Any]:
    """Return the objects of `metric.reporters`. Raise InvalidSetting; Java's JmxReporter is left out."""
    given = config.value("metric.reporters") or ()
    reason = "Give a list of objects with attach and detach, such as [PrometheusReporter()]"
    if not isinstance(given, Iterable):
        raise InvalidSetting("metric.reporters", given, reason)
    names = given.split(",") if isinstance(given, str) else list(given)
    found = []
    for one in names:
        if isinstance(one, str) and one.strip().endswith("JmxReporter"):
            continue
        has_both = callable(getattr(one, "attach", None)) and callable(getattr(one, "detach", None))
        if isinstance(one, type) or not has_both:
            raise InvalidSetting("metric.reporters", one, reason)
        found.append(one)
    return found


def window_of(config: Config) -> Window:
    """Return the window of rates and averages."""
    return Window(config.integer("metrics.num.samples"), config.integer("metrics.sample.window.ms"))


def attach_all(reporters: Iterable[Any], source: MetricsSource) -> None:
    """Attach a client to its reporters. What one raises is logged: it must not stop the client."""
    for reporter in reporters:
        _call(reporter.attach, source)


def detach_all(reporters: Iterable[Any], source: MetricsSource) -> None:
    """Detach a client."""
    for reporter in reporters:
        _call(reporter.detach, source)


def _call(method: Callable[[MetricsSource], object], source: MetricsSource) -> None:
    try:
        method(source)
    except Exception:  # a reporter must not stop its client
        log.exception("reporter of metrics failed client=%s", source.client_id)
