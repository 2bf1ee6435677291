"""Common part of the group and the transaction coordinators.

An internal topic, a shard for each of its partitions that this broker leads, and ids that belong to a partition by
hash.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

from kavka.broker.coordination.shard_runtime import ShardRuntime
from kavka.broker.metadata.cache import MetadataCache
from kavka.broker.partitions.replica import Replica
from kavka.core.controller.topics import NewTopic, TopicRefusal
from kavka.core.shards import partition_for
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition

log = logging.getLogger(__name__)

_ITERATIONS_TO_RESPOND = 2
"""Of the loop, from a reply to the response on the wire: the handler ends in one, the connection sends in the next."""

S = TypeVar("S", bound=ShardRuntime[Any, Any, Any])


class Coordinators(Generic[S]):
    """Finds the shard of an id."""

    topic_name: str
    """The internal topic; each kind of coordinators has its own."""
    replicas_setting: str
    """Name of the setting for its replication factor."""

    def __init__(
        self, metadata: MetadataCache, create_topic: Callable[[NewTopic], Awaitable[object]]
    ) -> None:
        """Start without shards; `become_leader` adds them. `create_topic` may return a TopicRefusal."""
        self._metadata = metadata
        self._create_topic = create_topic
        self._shards: dict[int, S] = {}

    @abstractmethod
    def internal_topic(self) -> NewTopic:
        """Return the topic as it is created on first use."""

    @abstractmethod
    def _make_shard(self, replica: Replica) -> S:
        """Return the shard of a partition; it is started next."""

    # -- the topic

    def partition_of(self, name: str) -> TopicPartition | None:
        """Return the partition of the internal topic to which an id belongs; None before there is one."""
        topic = self._metadata.topics.get(self.topic_name)
        if topic is None:
            return None
        return TopicPartition(self.topic_name, partition_for(name, len(topic.partitions)))

    async def leader_of(self, name: str) -> BrokerId | ErrorCode:
        """Return the coordinator of an id, creating the topic when there is none yet."""
        if self.topic_name not in self._metadata.topics:
            outcome = await self._create_topic(self.internal_topic())
            if (
                isinstance(outcome, TopicRefusal)
                and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS
            ):
                what = "internal topic not created topic=%s reason=%s setting=%s"
                log.warning(what, self.topic_name, outcome.message, self.replicas_setting)
        return self.known_leader_of(name)

    def known_leader_of(self, name: str) -> BrokerId | ErrorCode:
        """Return the coordinator of an id as it is known now."""
        topic_partition = self.partition_of(name)
        partition_metadata = (
            None if topic_partition is None else self._metadata.partition(topic_partition)
        )
        if partition_metadata is None or partition_metadata.leader not in self._metadata.brokers:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return partition_metadata.leader

    # -- leadership

    def become_leader(self, replica: Replica) -> None:
        """Coordinate the ids of a partition from now on."""
        partition = replica.topic_partition.partition
        self.resign(partition)
        shard = self._make_shard(replica)
        self._shards[partition] = shard
        shard.start()

    def continue_leading(self, replica: Replica) -> None:
        """Note that a partition that was led here is led here in a newer leader epoch."""

    def resign(self, partition: int) -> None:
        """Stop coordinating the ids of a partition; pending requests get NOT_COORDINATOR."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.stop()

    def committed(self, topic_partition: TopicPartition) -> None:
        """Note that the high watermark of a partition of the topic moved: decisions may be committed."""
        shard = self._shards.get(topic_partition.partition)
        if shard is not None:
            shard.commit_ready()

    def topics_deleted(self, topics: tuple[str, ...]) -> None:
        """Note that topics are gone."""

    def metadata_changed(self) -> None:
        """Note that leaders, or brokers, are others than before."""

    async def stop(self) -> None:
        """Stop all shards; all pending requests are answered when this returns."""
        for partition in list(self._shards):
            self.resign(partition)
        for _ in range(_ITERATIONS_TO_RESPOND):
            await asyncio.sleep(0)

    # -- shards

    def shard_of(self, name: str) -> S | ErrorCode:
        """Return the shard of an id, or the error to answer."""
        topic_partition = self.partition_of(name)
        shard = None if topic_partition is None else self._shards.get(topic_partition.partition)
        return ErrorCode.NOT_COORDINATOR if shard is None else shard

    def shards(self) -> Iterator[S]:
        """Iterate over the shards, in the order of their partitions."""
        return iter([shard for _partition, shard in sorted(self._shards.items())])
