"""Metrics of clients for OpenTelemetry, by its API: `pip install 'kavka[client-metrics]'`.

Instruments are observable ones, `kafka.producer.record_send_total` with the attribute `client_id`; values are put
together when the program's meter provider asks for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from math import inf, isnan
from typing import Any

from kavka.client.metrics.names import MetricName, Metrics
from kavka.client.metrics.reporters import MetricsSource, Sources

_ONE_COLLECTION_S = 0.1


class OpenTelemetryReporter:
    """Makes instruments of the metrics of clients; one object may be given to many clients."""

    def __init__(self, meter: Any = None) -> None:
        """Take a meter, by default `kavka.client` of the global meter provider.

        Raise ImportError, and TypeError for another object.
        """
        try:
            from opentelemetry import metrics
        except ImportError as error:
            raise ImportError(
                "opentelemetry-api is missing: install it with `pip install 'kavka[client-metrics]'`"
            ) from error
        if meter is not None and not callable(getattr(meter, "create_observable_gauge", None)):
            raise TypeError(f"the meter is {type(meter).__name__}, not opentelemetry.metrics.Meter")
        self._observation = metrics.Observation
        self._meter = meter or metrics.get_meter("kavka.client")
        self._sources = Sources()
        self._instruments: dict[str, Any] = {}
        self._read: dict[MetricsSource, tuple[float, Metrics]] = {}

    def attach(self, source: MetricsSource) -> None:
        """Make the instruments of a client's kind unless they are there."""
        self._sources.add(source)
        for name, metric in _instruments_of(source).items():
            if name not in self._instruments:
                observe = partial(self._observe, name)
                self._instruments[name] = self._make(metric)(
                    name, [observe], "", f"{metric.name} of {metric.group} in Kafka's clients"
                )

    def _make(self, metric: MetricName) -> Callable[..., Any]:
        make: Callable[..., Any] = (
            self._meter.create_observable_counter
            if metric.is_counter
            else self._meter.create_observable_gauge
        )
        return make

    def detach(self, source: MetricsSource) -> None:
        """Observe it no more."""
        self._sources.discard(source)
        self._read.pop(source, None)

    def _observe(self, name: str, _options: object) -> Iterable[Any]:
        for source, client_id in self._sources.all():
            for metric, value in self._recent(source).items():
                if instrument_name(metric) == name and not isnan(value):
                    yield self._observation(value, metric.labels() | {"client_id": client_id})

    def _recent(self, source: MetricsSource) -> Metrics:
        """Return the values of a client, which all instruments share in one collection."""
        now = time.monotonic()
        at, metrics = self._read.get(source, (-inf, {}))
        if now - at > _ONE_COLLECTION_S:
            metrics = source.metrics()
            self._read[source] = (now, metrics)
        return metrics


def instrument_name(metric: MetricName) -> str:
    """Return the name of an instrument; with a topic or partition, one of its own: sums must not mix them."""
    group = metric.group.removesuffix("-metrics").replace("-", ".")
    level = {2: ".topic", 3: ".partition"}.get(len(metric.tags), "")
    level = "" if group.endswith(".topic") else level
    return f"kafka.{group}{level}.{metric.name.replace('-', '_')}"


def _instruments_of(source: MetricsSource) -> dict[str, MetricName]:
    """Return all instruments of a kind of client, those of topics and partitions, too."""
    return {instrument_name(metric): metric for metric in source.example().metrics()}
