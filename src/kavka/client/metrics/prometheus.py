"""Metrics of clients for Prometheus, by prometheus-client: `pip install 'kavka[client-metrics]'`.

The names are Micrometer's: `kafka_producer_record_send_total{client_id="..."}`. Values are put together by a scrape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kavka.client.metrics.names import MetricName
from kavka.client.metrics.reporters import MetricsSource, Sources


class PrometheusReporter:
    """Adds clients to a registry of prometheus-client; one object may be given to many clients."""

    def __init__(self, registry: Any = None) -> None:
        """Take a `CollectorRegistry`, by default the one that `start_http_server` serves.

        Raise ImportError, and TypeError for another object.
        """
        try:
            from prometheus_client import REGISTRY, core
        except ImportError as error:
            raise ImportError(
                "prometheus-client is missing: install it with `pip install 'kavka[client-metrics]'`"
            ) from error
        if registry is not None and not callable(getattr(registry, "register", None)):
            raise TypeError(f"the registry is {type(registry).__name__}, not CollectorRegistry")
        self._core = core
        self._sources = Sources()
        (registry or REGISTRY).register(self)

    def attach(self, source: MetricsSource) -> None:
        """Show a client."""
        self._sources.add(source)

    def detach(self, source: MetricsSource) -> None:
        """Show it no more."""
        self._sources.discard(source)

    def describe(self) -> list[Any]:
        """Return nothing: the names depend on the clients. Called by the registry."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the families of all clients. Called by a scrape, in its thread."""
        families: dict[str, Any] = {}
        for source, client_id in self._sources.all():
            for metric, value in source.metrics().items():
                self._add(families, metric, value, client_id)
        yield from families.values()

    def _add(
        self, families: dict[str, Any], metric: MetricName, value: float, client_id: str
    ) -> None:
        labels = metric.labels() | {"client_id": client_id}
        # One name has the same labels everywhere: those of a topic or partition are families of their own.
        name = metric.joined("_")
        if metric.group.startswith("consumer-fetch") and len(labels) == 2:
            name = name.replace("_fetch_manager_", "_fetch_manager_topic_")
        family = families.get(name)
        if family is None:
            of = self._core
            kind = of.CounterMetricFamily if metric.is_counter else of.GaugeMetricFamily
            text = f"{metric.name} of {metric.group} in Kafka's clients"
            family = families[name] = kind(name, text, labels=list(labels))
        family.add_metric(list(labels.values()), value)
