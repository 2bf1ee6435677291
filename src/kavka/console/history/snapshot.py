"""The findings of one look at the cluster, and the values that are kept of it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kavka.client.admin.topics import TopicDescription
from kavka.console.history.groups import GroupFigures
from kavka.console.history.series import Key, topic_of_group
from kavka.console.views.brokers import BrokerRow
from kavka.console.views.topics import Health, health_of
from kavka.ids import TopicPartition


class TopicFigures(NamedTuple):
    """A topic after a look; None where it is not known."""

    records_in: float | None
    records_out: float | None
    size_bytes: int | None
    idle_s: float
    """Seconds in which it was seen that no record came."""
    is_idle_known: bool
    """False: none may have come before the first look, too."""


class PipelineFigures(NamedTuple):
    """A flow of a pipeline, as the topic of progress has it."""

    state: str
    error: str
    lag_seconds: float | None
    silent_s: float
    """Seconds since its last report."""
    is_over: bool
    """True if it was stopped or is done: no report is expected."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one look."""

    at_s: float
    cluster_id: str = ""
    controller: int | None = None
    brokers: list[BrokerRow] = field(default_factory=list)
    health: Mapping[str, Health] = field(default_factory=dict)
    """Of each topic that lacks something."""
    topics: Mapping[str, TopicFigures] = field(default_factory=dict)
    groups: Mapping[str, GroupFigures] = field(default_factory=dict)
    brokers_in: Mapping[int, float] = field(default_factory=dict)
    """Records a second that were written to the leaders on each broker."""
    disk_full_s: Mapping[int, float | None] = field(default_factory=dict)
    """Seconds until the disks of a broker are full, None where they do not fill; missing where it is unknown, or no
    rule asks."""
    pipelines: Mapping[str, PipelineFigures] | None = None
    """By `pipeline/flow`; None where they were not asked for."""
    certificates: Mapping[str, float | str] = field(default_factory=dict)
    """The time at which each expires, in seconds since 1970, or why it is not known."""
    history_fault: str = ""
    """The reason why the console cannot write its history; empty where it can."""


class EndsTracker:
    """The ends of partitions over time: rates of topics and brokers, and since when a topic is idle."""

    def __init__(self) -> None:
        """Begin without any."""
        self._ends: Mapping[TopicPartition, int] = {}
        self._at_s: float | None = None
        self._grew_s: dict[str, tuple[float, bool]] = {}

    def look(
        self,
        at_s: float,
        topics: Mapping[str, TopicDescription],
        ends: Mapping[TopicPartition, int],
    ) -> tuple[dict[str, float], dict[int, float]]:
        """Take the ends, and return records a second of topics and of the leaders on each broker."""
        elapsed_s = 0.0 if self._at_s is None else at_s - self._at_s
        by_topic: dict[str, float] = {}
        by_broker: dict[int, float] = {}
        for name, topic in topics.items():
            grown = 0
            known = False
            for part in topic.partitions:
                key = TopicPartition(name, part.partition)
                if key not in ends or key not in self._ends:
                    continue
                count = max(ends[key] - self._ends[key], 0)
                grown += count
                known = True
                if elapsed_s > 0:
                    rate = by_broker.get(part.leader, 0.0) + count / elapsed_s
                    by_broker[part.leader] = rate
            if known and elapsed_s > 0:
                by_topic[name] = grown / elapsed_s
            if name not in self._grew_s or grown:
                self._grew_s[name] = (at_s, self._at_s is not None)
        for gone in self._grew_s.keys() - topics.keys():
            del self._grew_s[gone]
        self._ends, self._at_s = dict(ends), at_s
        return by_topic, by_broker

    def idle(self, at_s: float, topic: str) -> tuple[float, bool]:
        """Return for how long a topic was seen to have no record, and whether that is all."""
        since_s, is_seen = self._grew_s[topic]
        return at_s - since_s, is_seen


def lacking(topics: Mapping[str, TopicDescription]) -> dict[str, Health]:
    """Return the health of topics that lack something."""
    found = {name: health_of(topic) for name, topic in topics.items()}
    return {name: health for name, health in found.items() if health.state != "ok"}


def values_of(snapshot: Snapshot) -> dict[Key, float]:
    """Return the values that are kept of a look, the most important series first."""
    found: dict[Key, float | None] = {}

    def add(kind: str, name: str, **values: float | None) -> None:
        for metric, value in values.items():
            found[Key(kind, name, metric)] = value

    topics, brokers = snapshot.topics.values(), snapshot.brokers
    ins = [one.records_in for one in topics if one.records_in is not None]
    outs = [one.records_out for one in topics if one.records_out is not None]
    usable = [row.usable_bytes for row in brokers if row.usable_bytes is not None]
    sizes = [row.size_bytes for row in brokers if row.size_bytes is not None]
    add(
        "cluster",
        "",
        records_in=sum(ins) if ins else None,
        records_out=sum(outs) if outs else None,
        under_replicated=sum(health.under_replicated for health in snapshot.health.values()),
        offline=sum(health.offline for health in snapshot.health.values()),
        brokers=sum(row.is_live for row in brokers),
        size=sum(sizes) if sizes else None,
        usable=min(usable) if usable else None,
    )
    for row in brokers:
        add(
            "broker",
            str(row.broker_id),
            records_in=snapshot.brokers_in.get(row.broker_id, 0.0) if ins else None,
            size=row.size_bytes,
            disk_used=used_share(row),
        )
    for name, group in snapshot.groups.items():
        add(
            "group",
            name,
            lag_seconds=group.lag_seconds,
            lag_records=group.lag_records,
            records_out=group.records_out,
        )
    for name, topic in snapshot.topics.items():
        add(
            "topic",
            name,
            records_in=topic.records_in,
            records_out=topic.records_out,
            size=topic.size_bytes,
        )
    for name, group in snapshot.groups.items():
        for of_topic, lag in group.lags.items():
            # A topic is noted although its lag is not known; a sum of some of a group's lags would be too little.
            is_whole = None not in group.lags.values()
            found[topic_of_group(of_topic, name)] = lag if is_whole else math.nan
    return {key: value for key, value in found.items() if value is not None}


def used_share(row: BrokerRow) -> float | None:
    """Return the part of a broker's disks that is used, 0 to 1, None where it did not say."""
    if row.usable_bytes is None or not row.total_bytes:
        return None
    return 1 - row.usable_bytes / row.total_bytes


def has_trend(points: list[tuple[int, float]]) -> bool:
    """Return whether there are enough points to say how they go on: three, and half an hour of them."""
    return len(points) > 2 and points[-1][0] - points[0][0] >= 1800


def seconds_until_full(points: list[tuple[int, float]], now_s: float) -> float | None:
    """Return when a share reaches 1 by a straight line through its points; None where it has no trend, or none up."""
    if not has_trend(points):
        return None
    mean_at = sum(at for at, _ in points) / len(points)
    mean = sum(value for _, value in points) / len(points)
    spread = sum((at - mean_at) ** 2 for at, _ in points)
    slope = sum((at - mean_at) * (value - mean) for at, value in points) / spread
    if slope <= 1e-9:  # less than a per mille in ten days
        return None
    at_now = mean + slope * (now_s - mean_at)
    return max((1 - max(at_now, points[-1][1])) / slope, 0.0)
