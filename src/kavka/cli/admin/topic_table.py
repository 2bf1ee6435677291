"""Output of `kavka topics --describe`: lines for a topic and for each of its partitions, or objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kavka.cli.json_lines.lines import Row
from kavka.client.admin.admin import Admin
from kavka.client.admin.configs import ConfigEntry, ConfigResource, ResourceType
from kavka.client.admin.eligible_leaders import EligibleLeaders
from kavka.client.admin.reassignments import Reassignment
from kavka.client.admin.topics import TopicDescription
from kavka.client.metadata import PartitionMetadata
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition, uuid_text


class Problems(NamedTuple):
    """Filters of partitions by problem; with none of these, all partitions match."""

    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False

    def has(
        self,
        part: PartitionMetadata,
        live: Iterable[int],
        min_isr: int,
        move: Reassignment | None = None,
    ) -> bool:
        """Return whether the partition has one of the problems."""
        in_sync = len(part.in_sync_replicas)
        is_led = part.leader in live
        return (
            (self.under_replicated and in_sync < replication_factor(part, move))
            or (self.unavailable and not is_led)
            or (self.under_min_isr and (not is_led or in_sync < min_isr))
            or (self.at_min_isr and in_sync == min_isr)
        )


class PartitionView(NamedTuple):
    """A partition that is shown; None where the cluster does not know eligible leaders, or nothing moves."""

    part: PartitionMetadata
    leaders: EligibleLeaders | None
    move: Reassignment | None


class TopicView(NamedTuple):
    """A topic that is shown; `changed` are its settings that are not the defaults."""

    topic: TopicDescription
    changed: list[ConfigEntry]
    replication_factor: int
    parts: list[PartitionView]


async def topic_views(
    admin: Admin,
    topics: Sequence[TopicDescription],
    problems: Problems,
    page_size: int,
) -> list[TopicView]:
    """Return the topics in order of their names, each with those of its partitions that have one of the problems."""
    if not topics:
        return []
    live = {broker.broker_id for broker in (await admin.describe_cluster()).brokers}
    settings = await _settings(admin, topics)
    leaders = await admin.eligible_leaders((t.name for t in topics), page_size=page_size)
    moves = await _moves(admin, topics)
    views = []
    for topic in sorted(topics, key=lambda topic: topic.name):
        min_isr = _min_isr(settings[topic.name])
        parts = []
        for part in topic.partitions:
            topic_partition = TopicPartition(topic.name, part.partition)
            move = moves.get(topic_partition)
            if not any(problems) or problems.has(part, live, min_isr, move):
                parts.append(PartitionView(part, leaders.get(topic_partition), move))
        changed = [entry for entry in settings[topic.name] if not entry.is_default]
        first_move = moves.get(TopicPartition(topic.name, 0))
        replicas = replication_factor(topic.partitions[0], first_move) if topic.partitions else 0
        views.append(TopicView(topic, changed, replicas, parts))
    return views


def lines_of(views: Iterable[TopicView], problems: Problems, *, overrides_only: bool) -> list[str]:
    """Return the lines about topics; with a problem those of partitions alone."""
    lines: list[str] = []
    for view in views:
        if not any(problems) and (view.changed or not overrides_only):
            lines.append(topic_line(view.topic, view.changed, view.replication_factor))
        if not overrides_only:
            lines.extend(partition_line(view.topic.name, *each) for each in view.parts)
    return lines


def topic_rows(
    views: Iterable[TopicView], *, is_filtered: bool, overrides_only: bool
) -> Iterator[Row]:
    """Yield topics; where partitions were chosen by their problems, those that have any."""
    for view in views:
        if (view.parts or not is_filtered) and (view.changed or not overrides_only):
            yield {
                "topic": view.topic.name,
                "topic_id": uuid_text(view.topic.topic_id),
                "internal": view.topic.is_internal,
                "partition_count": len(view.topic.partitions),
                "replication_factor": view.replication_factor,
                "configs": {entry.name: entry.value for entry in view.changed},
                "partitions": [_partition_row(each) for each in view.parts],
            }


def _partition_row(view: PartitionView) -> Row:
    part, leaders, move = view
    eligible, last_known = leaders or (None, None)
    return {
        "partition": part.partition,
        "leader": part.leader if part.leader >= 0 else None,
        "leader_epoch": part.leader_epoch,
        "replicas": list(part.replicas),
        "in_sync_replicas": list(part.in_sync_replicas),
        "offline_replicas": list(part.offline_replicas),
        "adding_replicas": [] if move is None else list(move.adding),
        "removing_replicas": [] if move is None else list(move.removing),
        "eligible_leader_replicas": _listed(eligible),
        "last_known_eligible_leader_replicas": _listed(last_known),
    }


def _listed(brokers: Iterable[int] | None) -> list[int] | None:
    return None if brokers is None else list(brokers)


async def _moves(
    admin: Admin, topics: Sequence[TopicDescription]
) -> dict[TopicPartition, Reassignment]:
    """Return the reassignments in progress; none where the cluster does not list them."""
    partitions = [TopicPartition(t.name, part.partition) for t in topics for part in t.partitions]
    try:
        return await admin.list_partition_reassignments(partitions)
    except KafkaError as error:
        if error.code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            return {}
        raise


async def _settings(
    admin: Admin, topics: Sequence[TopicDescription]
) -> dict[str, list[ConfigEntry]]:
    resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics]
    found = {}
    for resource, entries in (await admin.describe_configs(resources)).items():
        if isinstance(entries, KafkaError):
            raise entries
        found[resource.name] = entries
    return found


def _min_isr(settings: Sequence[ConfigEntry]) -> int:
    values = (entry.value for entry in settings if entry.name == "min.insync.replicas")
    return int(next(values, None) or 1)


def replication_factor(part: PartitionMetadata, move: Reassignment | None) -> int:
    """Return how many replicas a partition shall have; while it moves, those that come do not count."""
    if move is None or not {*move.adding, *move.removing} & {*part.replicas}:
        return len(part.replicas)
    return len(move.replicas) - len(move.adding)


def topic_line(
    topic: TopicDescription, changed: Sequence[ConfigEntry], replication_factor: int
) -> str:
    """Return the line about a topic as a whole; its first partition stands for all."""
    settings = ",".join(f"{entry.name}={_shown(entry.value)}" for entry in changed)
    return (
        f"Topic: {topic.name}\tTopicId: {uuid_text(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replication_factor}\tConfigs: {settings}"
    )


def partition_line(
    topic: str,
    part: PartitionMetadata,
    leaders: EligibleLeaders | None,
    move: Reassignment | None = None,
) -> str:
    """Return the line of a partition; adding and removing replicas are printed only during a reassignment."""
    eligible, last_known = leaders or (None, None)
    moving = ""
    if move is not None:
        moving = f"\tAdding Replicas: {_brokers(move.adding)}\tRemoving Replicas: {_brokers(move.removing)}"
    return (
        f"\tTopic: {topic}\tPartition: {part.partition}\tLeader: {part.leader if part.leader >= 0 else 'none'}"
        f"\tReplicas: {_brokers(part.replicas)}\tIsr: {_brokers(part.in_sync_replicas)}{moving}"
        f"\tElr: {_brokers(eligible)}\tLastKnownElr: {_brokers(last_known)}"
    )


def _brokers(brokers: Iterable[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))


def _shown(value: str | None) -> str:
    return "null" if value is None else value
