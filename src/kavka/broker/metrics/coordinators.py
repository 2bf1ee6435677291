"""The group coordinator: Kafka's GroupMetadataManager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kavka.broker.metrics.sources import MetricsSources
from kavka.core.group.group import GroupState
from kavka.metrics.families import Family, gauge, labelled

_GROUPS = "kafka_coordinator_group_groupmetadatamanager_"


def families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the families, over the groups that this broker coordinates."""
    _error, groups = sources.groups.get().list((), ())
    states = Counter(group.state for group in groups)
    yield gauge(f"{_GROUPS}numgroups", "Groups that this broker coordinates.", len(groups))
    for state in GroupState:
        name = f"{_GROUPS}numgroups{state.value.lower()}"
        yield gauge(name, f"Groups in the state {state.value}.", states[state.value])
    offsets = sum(shard.machine.offset_count for shard in sources.groups.get().shards())
    help = "Offsets that groups have committed here."
    yield gauge(f"{_GROUPS}numoffsets", help, offsets)
    help = "Records of an internal topic that its coordinators could not read when they loaded, and skipped."
    malformed = (
        (labelled(topic=topic), sum(shard.malformed_records for shard in coordinators.shards()))
        for topic, coordinators in sources.coordinators.items()
    )
    yield gauge("kavka_coordinator_malformed_records", help, malformed)
