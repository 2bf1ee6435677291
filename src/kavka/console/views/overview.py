"""The state of the cluster in one look: what is wrong, in sentences, and the figures beside it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kavka.client.admin.nodes import ClusterDescription
from kavka.client.admin.topics import TopicDescription
from kavka.console.formats import size_text
from kavka.console.sampler import Rate
from kavka.console.sentences import Sentence, as_is, say
from kavka.console.views.brokers import BrokerRow
from kavka.console.views.topics import Health, health_of

_FULL: Final = 0.85
_NAMED: Final = 3
"""Topics that a finding names."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong; `severity` is critical or warning, `location` the page that shows it."""

    severity: str
    sentence: Sentence
    location: str


@dataclass(frozen=True, slots=True)
class Overview:
    """The cluster; `state` is ok, warning or critical."""

    cluster_id: str
    state: str
    findings: list[Finding]
    brokers: list[BrokerRow]
    controller: int | None
    topics: int
    health: Health
    groups: int | None
    size_bytes: int | None
    usable_bytes: int | None
    """Bytes that are free on the broker that has least."""
    records_per_second: float | None
    rates: list[Rate]
    busiest: list[BusyTopic]


@dataclass(frozen=True, slots=True)
class BusyTopic:
    """One of the topics that grow fastest."""

    name: str
    records_per_second: float


def overview(
    cluster: ClusterDescription,
    topics: Sequence[TopicDescription],
    brokers: list[BrokerRow],
    groups: int | None,
    rates: list[Rate],
    busiest: list[BusyTopic],
    history_fault: str,
) -> Overview:
    """Return the overview."""
    health = Health()
    for topic in topics:
        health = health.plus(health_of(topic))
    findings = [
        *_of_brokers(brokers),
        *_of_controller(cluster, brokers),
        *_of_partitions(topics),
        *_of_disks(brokers),
        *_of_history(history_fault),
    ]
    severities = {finding.severity for finding in findings}
    sizes = [broker.size_bytes for broker in brokers if broker.size_bytes is not None]
    usable = [broker.usable_bytes for broker in brokers if broker.usable_bytes is not None]
    return Overview(
        cluster_id=cluster.cluster_id or "",
        state="critical" if "critical" in severities else "warning" if severities else "ok",
        findings=findings,
        brokers=brokers,
        controller=cluster.controller_id if cluster.controller_id >= 0 else None,
        topics=sum(not topic.is_internal for topic in topics),
        health=health,
        groups=groups,
        size_bytes=sum(sizes) if sizes else None,
        usable_bytes=min(usable) if usable else None,
        records_per_second=rates[-1].per_second if rates else None,
        rates=rates,
        busiest=busiest,
    )


def _of_brokers(brokers: Sequence[BrokerRow]) -> list[Finding]:
    return [
        Finding(
            "critical",
            say(
                "Broker {broker_id} is not in the cluster, and {replicas} replicas are assigned "
                "to it.",
                broker_id=broker.broker_id,
                replicas=broker.replicas,
            ),
            "/brokers",
        )
        for broker in brokers
        if not broker.is_live
    ] + [
        Finding(
            "warning",
            say("Broker {broker_id}: {note}.", broker_id=broker.broker_id, note=broker.note),
            "/brokers",
        )
        for broker in brokers
        if broker.is_live and broker.note
    ]


def _of_history(fault: str) -> list[Finding]:
    if not fault:
        return []
    said = say("The history cannot be written: {reason}.", reason=fault)
    return [Finding("warning", said, "/history")]


def _of_controller(cluster: ClusterDescription, brokers: Sequence[BrokerRow]) -> list[Finding]:
    # Brokers with KRaft name one of themselves, and the controllers are elsewhere.
    if cluster.controller_id >= 0 or not brokers:
        return []
    return [
        Finding("critical", say("No broker is the controller: no leader is elected."), "/brokers")
    ]


def _of_partitions(topics: Sequence[TopicDescription]) -> list[Finding]:
    offline: list[str] = []
    lacking: list[str] = []
    counts = Health()
    for topic in topics:
        health = health_of(topic)
        counts = counts.plus(health)
        if health.offline:
            offline.append(topic.name)
        if health.under_replicated:
            lacking.append(topic.name)
    found = []
    if offline:
        found.append(
            Finding(
                "critical",
                say(
                    "{partitions} no leader, in {names}: nothing can be written or read there.",
                    partitions=_partitions(counts.offline),
                    names=_names(offline),
                ),
                "/topics?sort=state&internal=true",
            )
        )
    if lacking:
        found.append(
            Finding(
                "warning",
                say(
                    "{partitions} fewer replicas in sync than assigned, in {names}.",
                    partitions=_partitions(counts.under_replicated),
                    names=_names(lacking),
                ),
                "/topics?sort=state&internal=true",
            )
        )
    return found


def _partitions(count: int) -> Sentence:
    return say(
        "{count:,} partition{s_have}", count=count, s_have=" has" if count == 1 else "s have"
    )


def _names(names: Sequence[str]) -> Sentence:
    listed = ", ".join(names[:_NAMED])
    more = len(names) - _NAMED
    if more > 0:
        return say("{listed} and {more} more", listed=listed, more=more)
    return as_is(listed)


def _of_disks(brokers: Sequence[BrokerRow]) -> list[Finding]:
    return [
        Finding(
            "warning",
            say(
                "The disks of broker {broker_id} are {used:.0%} full: {free} of {total} are free.",
                broker_id=broker.broker_id,
                used=1 - broker.usable_bytes / broker.total_bytes,
                free=size_text(broker.usable_bytes),
                total=size_text(broker.total_bytes),
            ),
            f"/brokers/{broker.broker_id}",
        )
        for broker in brokers
        if broker.usable_bytes is not None
        and broker.total_bytes
        and broker.usable_bytes / broker.total_bytes < 1 - _FULL
    ]
