"""Names of metrics as Kafka's Java clients have them: name, group and tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kavka.client.metrics.sensors import Sensor


class MetricName(NamedTuple):
    """A metric, such as `record-send-total` of `producer-metrics` with `(("client-id", "producer-1"),)`."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...]

    @property
    def is_counter(self) -> bool:
        """Return whether it only grows."""
        return self.name.endswith("-total")

    def joined(self, separator: str) -> str:
        """Return `kafka`, group and name in one, as Micrometer joins them: `kafka_consumer_fetch_manager_...`."""
        parts = ("kafka", self.group.removesuffix("-metrics"), self.name)
        return separator.join(parts).replace("-", separator if separator == "_" else "_")

    def labels(self) -> dict[str, str]:
        """Return the tags with underscores."""
        return {name.replace("-", "_"): value for name, value in self.tags}


Metrics = dict[MetricName, float]
Named = Iterator[tuple[str, float]]


def counted(name: str, sensor: Sensor, now_ms: int) -> Named:
    """Yield the total of a sensor's values and their rate in a second."""
    yield f"{name}-total", sensor.total
    yield f"{name}-rate", sensor.rate(now_ms)


def occurrences(name: str, sensor: Sensor, now_ms: int) -> Named:
    """Yield how many values a sensor has had, and their rate in a second."""
    yield f"{name}-total", sensor.count
    yield f"{name}-rate", sensor.occurrence_rate(now_ms)


def spread(name: str, sensor: Sensor, now_ms: int) -> Named:
    """Yield average and maximum of a sensor's values; NaN without any, as in Kafka."""
    yield f"{name}-avg", sensor.average(now_ms)
    yield f"{name}-max", sensor.maximum(now_ms)
