"""Names of metrics as Kafka's Java clients have them: name, group and tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kavka.client.metrics.sensors import Sum


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


def counted(name: str, values: Sum) -> Named:
    """Yield the total of values and their rate in a second."""
    yield f"{name}-total", values.total
    yield f"{name}-rate", values.rate()


def occurrences(name: str, values: Sum) -> Named:
    """Yield how many values there were, and their rate in a second."""
    yield f"{name}-total", values.count
    yield f"{name}-rate", values.occurrence_rate()


def spread(name: str, values: Sum) -> Named:
    """Yield average and maximum of values; NaN without any, as in Kafka."""
    yield f"{name}-avg", values.average()
    yield f"{name}-max", values.maximum()
