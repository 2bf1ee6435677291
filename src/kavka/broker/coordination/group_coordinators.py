"""The group coordinators of this broker: one shard for each partition of `__consumer_offsets` that it leads.

A shard is loaded by replaying its partition, in slices, so that the loop serves others meanwhile; until then it answers
COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.coordination.coordinators import Coordinators
from kavka.broker.coordination.group_shard_runtime import GroupCounts, GroupShardRuntime
from kavka.broker.metadata.cache import OFFSETS_TOPIC, MetadataCache
from kavka.broker.partitions.batch_decoder import BatchDecoder
from kavka.broker.partitions.replica import Replica
from kavka.core.controller.topics import NewTopic
from kavka.core.group.describe import CLASSIC
from kavka.core.group.events import DeleteTopicsOffsets, DescribedGroup, Event, ListedGroup
from kavka.core.group.group import GroupState, MembersMemory
from kavka.core.group.settings import GroupSettings
from kavka.core.machine import Token
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.io import Clock, Disk
from kavka.wire.records.compression import Compression

_STATES = tuple(state.value.lower() for state in GroupState)


class GroupCoordinators(Coordinators[GroupShardRuntime]):
    """Finds the shard of a group, and asks it."""

    topic_name = OFFSETS_TOPIC
    replicas_setting = "offsets.topic.replication.factor"

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataCache,
        clock: Clock,
        disk: Disk,
        create_topic: Callable[[NewTopic], Awaitable[object]],
        *,
        is_single_broker: bool,
    ) -> None:
        """Start without shards; `become_leader` is called for each partition. `create_topic` may return a TopicRefusal.

        `is_single_broker`: there will never be another broker.
        """
        super().__init__(metadata, create_topic)
        self.counts = GroupCounts()
        self._is_single_broker = is_single_broker
        self._config = config
        self._clock = clock
        self._decoder = BatchDecoder(disk)
        self._members_memory = MembersMemory()
        self._compression = Compression(config.integer("offsets.topic.compression.codec"))
        self._partitions = config.integer("offsets.topic.num.partitions")
        self._settings = GroupSettings(
            min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
            max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
            max_size=config.integer("group.max.size"),
            max_members_bytes=config.integer("kavka.group.members.max.bytes"),
            offset_metadata_max_bytes=config.integer("offset.metadata.max.bytes"),
            offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
            retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
        )

    def internal_topic(self) -> NewTopic:
        """Return the topic as it is created on first use."""
        # While fewer brokers live, creating it is refused (KIP-115): it would stay with the replicas that it got.
        factor = 1 if self._is_single_broker else self._config.integer(self.replicas_setting)
        settings: dict[str, str | None] = {
            "cleanup.policy": "compact",
            "segment.bytes": str(self._config.integer("offsets.topic.segment.bytes")),
            "compression.type": "producer",
        }
        return NewTopic(OFFSETS_TOPIC, self._partitions, factor, {}, settings)

    def _make_shard(self, replica: Replica) -> GroupShardRuntime:
        return GroupShardRuntime(
            replica,
            self._settings,
            self._compression,
            self._config.integer("offsets.commit.timeout.ms"),
            self._clock,
            self._decoder,
            self._members_memory,
            self.counts,
        )

    # -- asking

    async def submit(self, group_id: str, make_event: Callable[[Token], Event]) -> Any:
        """Submit an event to the shard of a group; return its reply, or the error to answer."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return await shard.submit(make_event)

    def describe(self, group_id: str) -> DescribedGroup:
        """Return the present state of a group; an unknown one is Dead."""
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
        wanted_states = _filter(states, _STATES)
        wanted_types = _filter(types, (CLASSIC,))
        for shard in self.shards():
            groups = shard.machine.list(wanted_states, wanted_types)
            if isinstance(groups, ErrorCode):
                error = groups
            else:
                found += groups
        return error, found

    def marker_appended(
        self, topic_partition: TopicPartition, producer_id: int, *, committed: bool, end_offset: int
    ) -> None:
        """Note that a partition has the marker of a transaction; of the offsets topic, its shard heeds it."""
        shard = (
            self._shards.get(topic_partition.partition)
            if topic_partition.topic == OFFSETS_TOPIC
            else None
        )
        if shard is not None:
            shard.marker_appended(producer_id, committed=committed, end_offset=end_offset)

    def topics_deleted(self, topics: tuple[str, ...]) -> None:
        """Forget what groups have committed for them."""
        for shard in self.shards():
            shard.post(DeleteTopicsOffsets(topics))


def _filter(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return what a filter comes down to: the names that mean something, or one that lets nothing through."""
    given = set(map(str.lower, names))
    return [name for name in known if name in given] or list(given)[:1]
