"""The group coordinator: Kafka's GroupMetadataManager and GroupCoordinatorMetrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kavka.broker.metrics.sources import MetricsSources
from kavka.core.group.group import GroupState
from kavka.metrics.families import Family, gauge, labelled
from kavka.metrics.rates import Rates

_GROUPS = "kafka_coordinator_group_groupmetadatamanager_"
_METRICS = "kafka_server_group_coordinator_metrics_"


def families(sources: MetricsSources, rates: Rates | None = None) -> Iterator[Family]:
    """Yield the families, over the groups that this broker coordinates; rates where they are given."""
    _error, groups = sources.groups.get().list((), ())
    states = Counter(group.state for group in groups)
    yield gauge(f"{_GROUPS}numgroups", "Groups that this broker coordinates.", len(groups))
    for state in GroupState:
        name = f"{_GROUPS}numgroups{state.value.lower()}"
        yield gauge(name, f"Groups in the state {state.value}.", states[state.value])
    offsets = sum(shard.machine.offset_count for shard in sources.groups.get().shards())
    help = "Offsets that groups have committed here."
    yield gauge(f"{_GROUPS}numoffsets", help, offsets)
    yield from _of_work(sources, rates)
    help = "Records of an internal topic that its coordinators could not read when they loaded, and skipped."
    malformed = (
        (labelled(topic=topic), sum(shard.malformed_records for shard in coordinators.shards()))
        for topic, coordinators in sources.coordinators.items()
    )
    yield gauge("kavka_coordinator_malformed_records", help, malformed)


def totals(sources: MetricsSources) -> dict[tuple[str, str], float]:
    """Return the totals that have rates, by name and labels."""
    groups = sources.groups.made
    commits, rebalances = (
        (0, 0) if groups is None else (groups.counts.commits, groups.counts.rebalances)
    )
    return {("offset_commit", ""): commits, ("group_completed_rebalance", ""): rebalances}


def _of_work(sources: MetricsSources, rates: Rates | None) -> Iterator[Family]:
    helps = {
        "offset_commit": "Offsets that groups have committed, one for each partition.",
        "group_completed_rebalance": "Rebalances that ended with an assignment.",
    }
    now_ms = sources.context.clock.tick_ms()
    for (name, labels), total in totals(sources).items():
        # Kafka's names have no `_total`, which a counter of Prometheus must have.
        yield gauge(f"{_METRICS}{name}_count", helps[name], total)
        if rates is not None:
            help = f"{helps[name]} In a second, over the last half minute."
            rate = rates.per_second(name, labels, total, now_ms)
            yield gauge(f"{_METRICS}{name}_rate", help, rate)
