"""Both roles of a broker in replication: its fetchers, its followers, and its in-sync sets.

A broker that is alone has replicas of its own only; nothing here is made, or imported, before another is learned of.
"""

from __future__ import annotations

from kavka.broker.context import BrokerContext
from kavka.broker.control.controller import Controller
from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.replication.alter_partition_manager import AlterPartitionManager
from kavka.broker.replication.follower_fetch import FollowerFetchHandler
from kavka.broker.replication.node_to_controller_channel import NodeToControllerChannel
from kavka.broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from kavka.broker.replication.throttle import FollowerThrottle, LeaderThrottle
from kavka.ids import TopicPartition
from kavka.net.request_budget import RequestBudget


class ReplicationManager:
    """The parts that replicate, made together."""

    def __init__(
        self,
        context: BrokerContext,
        replica_manager: ReplicaManager,
        controller: Controller,
        request_budget: RequestBudget,
    ) -> None:
        """Replicate nothing yet."""
        self.leader_throttle = LeaderThrottle(context)
        self.follower_throttle = FollowerThrottle(context)
        self.controller = NodeToControllerChannel(controller)
        self.alter_partition_manager = AlterPartitionManager(
            context, replica_manager, self.controller
        )
        self.fetchers = ReplicaFetcherManager(context, self.follower_throttle)
        self.followers = FollowerFetchHandler(
            context,
            replica_manager,
            self.leader_throttle,
            self.alter_partition_manager.propose,
            request_budget,
        )

    def follow(self, replica: Replica) -> None:
        """Fetch from the partition's leader, if it has one."""
        if replica.partition.leader >= 0:
            self.fetchers.follow(replica)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stop fetching."""
        self.fetchers.unfollow(topic_partition)

    def brokers_changed(self) -> None:
        """Note that other brokers are alive now, or elsewhere."""
        self.fetchers.brokers_changed()

    async def stop(self) -> None:
        """End everything that runs."""
        self.leader_throttle.close()
        self.follower_throttle.close()
        await self.fetchers.stop()
        await self.alter_partition_manager.stop()
