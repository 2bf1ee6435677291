"""All fetchers of a broker: `num.replica.fetchers` for each leader that it follows."""

from __future__ import annotations

import asyncio
from zlib import crc32

from kavka.broker.context import BrokerContext
from kavka.broker.partitions.replica import Replica
from kavka.broker.replication.fetcher_context import FetcherContext
from kavka.broker.replication.replica_fetcher import ReplicaFetcher
from kavka.broker.replication.throttle import FollowerThrottle
from kavka.ids import BrokerId, TopicPartition


class ReplicaFetcherManager:
    """Gives each followed partition to the fetcher of its leader."""

    def __init__(self, context: BrokerContext, throttle: FollowerThrottle) -> None:
        """Follow nothing yet."""
        self._effective_configs = context.effective_configs
        self._fetcher_context = FetcherContext(context, throttle)
        self._fetchers: dict[tuple[BrokerId, int], ReplicaFetcher] = {}
        self._fetcher_of: dict[TopicPartition, ReplicaFetcher] = {}

    def follow(self, replica: Replica) -> None:
        """Fetch a partition from its leader from now on, in its present leader epoch."""
        self.unfollow(replica.topic_partition)
        leader = replica.partition.leader
        per_leader = self._effective_configs.broker_integer("num.replica.fetchers")
        number = crc32(str(replica.topic_partition).encode()) % per_leader
        fetcher = self._fetchers.get((leader, number))
        if fetcher is None:
            fetcher = self._fetchers[leader, number] = ReplicaFetcher(
                self._fetcher_context, leader, number
            )
        self._fetcher_of[replica.topic_partition] = fetcher
        fetcher.follow(replica)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stop fetching a partition."""
        fetcher = self._fetcher_of.pop(topic_partition, None)
        if fetcher is not None:
            fetcher.unfollow(topic_partition)

    def brokers_changed(self) -> None:
        """Reconnect at once to the leaders that could not be reached: they may be alive now, or elsewhere."""
        for fetcher in self._fetchers.values():
            fetcher.wake()

    async def stop(self) -> None:
        """End all fetchers."""
        await asyncio.gather(*(fetcher.stop() for fetcher in self._fetchers.values()))
        self._fetchers.clear()
        self._fetcher_of.clear()

    def items(self) -> list[tuple[BrokerId, int, ReplicaFetcher]]:
        """Return all fetchers with their leaders and numbers."""
        return [(leader, number, each) for (leader, number), each in self._fetchers.items()]
