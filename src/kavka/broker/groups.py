"""The group coordinators of this broker: one shard for each partition of `__consumer_offsets` that it leads.

    event -> machine.handle -> records appended -> committed -> machine.apply -> effects leave

A shard is loaded by replaying its partition, in slices, so that the loop serves others meanwhile; until then it answers
COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from kavka.broker.group_shell import GroupShell
from kavka.broker.replica import Replica
from kavka.core.controller.topics import NewTopic, TopicRefusal
from kavka.core.group.coordination import partition_for
from kavka.core.group.events import DeleteTopicsOffsets, DescribedGroup, Event, ListedGroup
from kavka.core.group.settings import GroupSettings
from kavka.core.machine import Token
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from kavka.broker.broker import Broker

log = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"


class GroupCoordinators:
    """Finds the shard of a group, and asks it."""

    def __init__(self, broker: Broker) -> None:
        """Coordinate nothing yet; `lead` is told of each partition."""
        self._broker = broker
        self._shards: dict[int, GroupShell] = {}
        config = broker.config
        self._partitions = config.integer("offsets.topic.num.partitions")
        self._settings = GroupSettings(
            min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
            max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
            max_size=config.integer("group.max.size"),
            offset_metadata_max_bytes=config.integer("offset.metadata.max.bytes"),
            offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
            retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
        )

    # -- the topic

    @property
    def internal_topics(self) -> dict[str, NewTopic]:
        """The topics that the coordinator keeps, as they are created on first use."""
        brokers = max(1, len(self._broker.metadata.brokers))
        factor = min(self._broker.config.integer("offsets.topic.replication.factor"), brokers)
        settings: dict[str, str | None] = {
            "cleanup.policy": "compact",
            "segment.bytes": str(self._broker.config.integer("offsets.topic.segment.bytes")),
            "compression.type": "producer",
        }
        return {OFFSETS_TOPIC: NewTopic(OFFSETS_TOPIC, self._partitions, factor, {}, settings)}

    async def leader_of(self, group_id: str) -> BrokerId | ErrorCode:
        """Return the coordinator of a group, creating the topic when there is none yet."""
        topic = self._broker.metadata.topics.get(OFFSETS_TOPIC)
        if topic is None:
            wanted = self.internal_topics[OFFSETS_TOPIC]
            outcome = await self._broker.controller.create_topic(wanted, validate_only=False)
            if (
                isinstance(outcome, TopicRefusal)
                and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS
            ):
                log.warning("offsets topic not created reason=%s", outcome.message)
            topic = self._broker.metadata.topics.get(OFFSETS_TOPIC)
            if topic is None:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        news = topic.partitions[partition_for(group_id, len(topic.partitions))]
        if news.leader not in self._broker.metadata.brokers:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return news.leader

    # -- leadership

    def lead(self, replica: Replica) -> None:
        """Coordinate the groups of a partition of the offsets topic from now on."""
        partition = replica.where.partition
        self.resign(partition)
        shard = GroupShell(self._broker, replica, self._settings)
        self._shards[partition] = shard
        shard.start()

    def resign(self, partition: int) -> None:
        """Coordinate the groups of a partition no longer; who waits is told NOT_COORDINATOR."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.stop()

    # -- asking

    def shard_of(self, group_id: str) -> GroupShell | ErrorCode:
        """Return the shard of a group, or the error to answer."""
        topic = self._broker.metadata.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return ErrorCode.NOT_COORDINATOR
        shard = self._shards.get(partition_for(group_id, len(topic.partitions)))
        return ErrorCode.NOT_COORDINATOR if shard is None else shard

    async def ask(self, group_id: str, make: Callable[[Token], Event]) -> Any:
        """Tell the shard of a group an event; return its reply, or the error to answer."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return await shard.ask(make)

    def describe(self, group_id: str) -> DescribedGroup:
        """Return a group as it is now; one that nobody knows is Dead."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return DescribedGroup(shard, group_id)
        return shard.machine.describe(group_id)

    def list(
        self, states: Iterable[str], types: Iterable[str]
    ) -> tuple[ErrorCode, list[ListedGroup]]:
        """Return the groups of all loaded shards; the error says that some are still loading."""
        found: list[ListedGroup] = []
        error = ErrorCode.NONE
        for _partition, shard in sorted(self._shards.items()):
            groups = shard.machine.list(tuple(states), tuple(types))
            if isinstance(groups, ErrorCode):
                error = groups
            else:
                found += groups
        return error, found

    def topics_deleted(self, topics: tuple[str, ...]) -> None:
        """Forget what groups have committed for topics that are gone."""
        for shard in list(self._shards.values()):
            shard.tell(DeleteTopicsOffsets(topics))

    def committed(self, where: TopicPartition) -> None:
        """Learn that the high watermark of a partition of the topic moved: decisions may be committed."""
        shard = self._shards.get(where.partition)
        if shard is not None:
            shard.commit_ready()

    async def stop(self) -> None:
        """Stop all shards."""
        for partition in list(self._shards):
            self.resign(partition)
        await asyncio.sleep(0)
