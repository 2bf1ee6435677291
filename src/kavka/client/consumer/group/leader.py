"""The leader of a group: it assigns the partitions, and rejoins when what it saw of the topics changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kavka.client.cluster import Cluster
from kavka.client.consumer.group.assignors import Assignor, Member, RackAware
from kavka.client.consumer.group.racks import NO_RACKS, PartitionRacks
from kavka.core.group_member.steps import Assignments, JoinResult
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.consumer_protocol import decode_subscription


class TopicLayout(NamedTuple):
    """The topics of a group at an assignment."""

    counts: dict[str, int]
    """The number of partitions, 0 for a topic that is not there."""
    racks: PartitionRacks
    """Racks of the partitions; empty unless a member has a rack."""


class GroupLeader:
    """The consumer as the leader of its group, if it is."""

    def __init__(self, cluster: Cluster, assignors: Sequence[Assignor]) -> None:
        """Lead nothing yet."""
        self._cluster = cluster
        self._assignors = assignors
        self._seen: TopicLayout | None = None

    def resign(self) -> None:
        """Lead no more: another member may, in the next generation."""
        self._seen = None

    async def assign(self, joined: JoinResult) -> Assignments:
        """Run the assignor that the group chose. Raise KafkaError, OSError, CorruptFrame."""
        assignor = next((a for a in self._assignors if a.name == joined.protocol_name), None)
        if assignor is None:
            detail = f"the group chose the unknown assignor {joined.protocol_name}"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail)
        members = [
            Member(member_id, instance_id, decode_subscription(metadata))
            for member_id, instance_id, metadata in joined.members
        ]
        topics = dict.fromkeys(topic for m in members for topic in m.subscription.topics)
        self._cluster.add_topics(topics)
        if any(topic not in self._cluster.metadata.topics for topic in topics):
            await self._cluster.refresh()
        seen = self._layout(topics, with_racks=any(member.rack for member in members))
        self._seen = seen
        counts = {topic: count for topic, count in seen.counts.items() if count}
        if isinstance(assignor, RackAware):
            return assignor.assign_with_racks(counts, members, seen.racks)
        return assignor.assign(counts, members)

    def change(self) -> str | None:
        """Return what has changed in the metadata since the assignment; None for nothing that matters."""
        if self._seen is None:
            return None
        now = self._layout(self._seen.counts, with_racks=bool(self._seen.racks))
        if now.counts != self._seen.counts:
            return "the number of partitions has changed"
        if now.racks != self._seen.racks:
            return "the racks of partitions have changed"
        return None

    def _layout(self, topics: Iterable[str], *, with_racks: bool) -> TopicLayout:
        metadata = self._cluster.metadata
        known = metadata.topics
        counts = {topic: len(known[topic].partitions) if topic in known else 0 for topic in topics}
        return TopicLayout(counts, metadata.racks(counts) if with_racks else NO_RACKS)
