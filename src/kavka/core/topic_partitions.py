"""Partitions grouped by topic, as the requests of Kafka's protocol and files of offsets have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

V = TypeVar("V")


def partitions_by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, in the order of `partitions`."""
    return group_by_topic((partition, partition[1]) for partition in partitions)


def group_by_topic(items: Iterable[tuple[tuple[str, int], V]]) -> dict[str, list[V]]:
    """Return the values of each topic's partitions, in the order of `items`: pairs of partition and value."""
    topics: dict[str, list[V]] = {}
    for (topic, _partition), value in items:
        topics.setdefault(topic, []).append(value)
    return topics


def nest_by_topic(items: Iterable[tuple[tuple[str, int], V]]) -> dict[str, dict[str, V]]:
    """Return values by topic and partition in the form that Spark writes as JSON, ordered: `{"t": {"0": 5}}`."""
    topics: dict[str, dict[str, V]] = {}
    for (topic, partition), value in sorted(items, key=lambda item: item[0]):
        topics.setdefault(topic, {})[str(partition)] = value
    return topics
